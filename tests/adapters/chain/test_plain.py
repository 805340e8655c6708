# SPDX-License-Identifier: Apache-2.0
"""Contracts of the first generation. Ours answer all of its calls, so the plain path is walked on them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.test_sender import Office, job, requested, settlement
from tests.fakes.ledger import PRICES, SMALL

from gridstead.domain.billing import price_per_minute
from gridstead.domain.calls import ClaimJobs, Match, Refuse, SetRunning
from gridstead.domain.lifecycle import JobState
from gridstead.domain.sending import SendState


@pytest.fixture
def plain(chain):
    """The same chain, as if its contracts were DeepSquare's."""
    grid = RealGrid(chain)
    grid.register()
    grid.approve()
    chain.anvil.rpc("evm_setAutomine", False)
    return SimpleNamespace(
        node=chain.node,
        anvil=chain.anvil,
        contracts=replace(chain.contracts, version=""),
        grid=grid,
        provider=chain.provider,
        operator=chain.operator,
    )


def test_whole_lives_of_jobs_take_a_transaction_per_call(plain, tmp_path):
    grid = plain.grid
    first, second = requested(grid, 2)
    operator = Office(plain, plain.operator, tmp_path, batch=1)
    provider = Office(plain, plain.provider, tmp_path, batch=1)
    for number in (first, second):
        operator.outbox.put(f"match:{number}", Match(proof=job(grid, number).proof, provider=grid.provider))
    operator.finish()
    for turn in range(2):
        provider.outbox.put(f"claim:{turn}", ClaimJobs(limit=50))
        provider.finish()
    provider.outbox.put("run", SetRunning(proof=job(grid, first).proof, started_at=1))
    provider.outbox.put("refuse", Refuse(proof=job(grid, second).proof))
    provider.finish()
    plain.anvil.rpc("evm_increaseTime", 1000)
    provider.outbox.put("end", settlement(job(grid, first), JobState.FAILED, seconds=179, exit_code=256, error="no"))
    provider.finish()

    jobs = operator.ledger.jobs([first, second, 99], at=operator.ledger.head())
    assert {*operator.states(), *provider.states()} == {SendState.FINAL}
    assert (jobs[first].state, jobs[second].state) == (JobState.FAILED, JobState.PENDING)
    assert jobs[first].price_per_min == price_per_minute(SMALL, PRICES)
    assert jobs[first].final_cost == 2 * jobs[first].price_per_min
    assert jobs[second].price_per_min == 0
    assert len(provider.raws()) == 5
    operator.close()
    provider.close()


def test_refused_call_is_rejected_with_the_contracts_reason(plain, tmp_path):
    (number,) = requested(plain.grid, 1)
    stranger = Office(plain, plain.provider, tmp_path, batch=1)
    stranger.outbox.put("match", Match(proof=job(plain.grid, number).proof, provider=plain.grid.provider))
    stranger.finish()

    assert stranger.states() == [SendState.REJECTED]
    assert "missing role" in stranger.reasons()[0]
    stranger.close()
