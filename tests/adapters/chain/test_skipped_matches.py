# SPDX-License-Identifier: Apache-2.0
"""Skipped matches on a real chain: only those in transactions of our own wallet count."""

from __future__ import annotations

from tests.adapters.chain.generations import on_all
from tests.fakes.ledger import PRICES

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.transactions.encode import encode
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import Match

RAISED_PRICES = (PRICES.gpu_per_min, 2 * PRICES.cpu_per_min, PRICES.memory_mb_per_min)


def skipped_event_count(chain):
    """Return how many events of skipped elements the MetaScheduler contract has emitted."""
    topic = artifact("MetaScheduler").events["BatchElementSkipped"].topic
    log_filter = {
        "address": chain.contracts.meta_scheduler.address,
        "fromBlock": "0x0",
        "topics": [topic],
    }
    return len(chain.node.ask("eth_getLogs", log_filter))


def test_event_that_another_account_caused_does_not_count(chain, grid_services):
    grid = grid_services.grid
    number = grid_services.request()
    match = Match(job_key=grid.job(number).job_key, provider=grid.provider, max_price_per_min=0)
    payload = encode([match], chain.contracts)
    chain.anvil.rpc("evm_setAutomine", True)
    outsider = Customer(chain.node, chain.contracts, chain.customer)
    outsider._direct.transact(payload.to, payload.data, name="Match")
    chain.anvil.rpc("evm_setAutomine", False)
    assert skipped_event_count(chain) == 1

    grid_services.matching.tick()
    grid_services.operator_sender.finish()
    grid_services.matching.tick()

    assert not any(grid_services.skipped_matches.counts().values())
    assert grid.job(number).state is JobState.META_SCHEDULED


def test_match_that_a_raised_price_skips_excludes_the_provider_from_the_job(chain, grid_services):
    grid = grid_services.grid
    number = grid_services.request()
    grid_services.matching.tick()
    chain.anvil.rpc("evm_setAutomine", True)
    provider = Customer(chain.node, chain.contracts, chain.provider)
    manager = chain.contracts.providers
    provider._direct.transact(
        manager.address, manager.data("setPrices", RAISED_PRICES), name="setPrices"
    )
    chain.anvil.rpc("evm_setAutomine", False)
    grid_services.operator_sender.finish()
    grid_services.matching.tick()

    assert grid.job(number).state is JobState.PENDING
    assert grid_services.skipped_matches.counts()["PriceAboveLimit"] == 1
    assert "changed its terms" in grid_services.matching.pending()[grid.job_id(number)]


@on_all
def test_match_of_a_cancelled_job_does_not_exclude_the_provider(chain, grid_services):
    grid = grid_services.grid
    number = grid_services.request()
    grid_services.matching.tick()
    chain.anvil.rpc("evm_setAutomine", True)
    grid.cancel(number)
    chain.anvil.rpc("evm_setAutomine", False)
    grid_services.operator_sender.finish()
    new_number = grid_services.request()

    grid_services.matching.tick()
    grid_services.operator_sender.finish()

    assert grid.job(new_number).state is JobState.META_SCHEDULED
    assert not any(grid_services.skipped_matches.counts().values())
