# SPDX-License-Identifier: Apache-2.0
"""The contracts bill the example of docs/explanation/billing.md with the figures of the page."""

from __future__ import annotations

import re

from tests.adapters.chain.conftest import RealGrid
from tests.billing_page import PAGE, read_example
from tests.fakes.ledger import HARDWARE

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import Register, Settle


def test_example_is_settled_with_the_figures_of_the_page(chain):
    example = read_example(PAGE.read_text())
    given, expected = example.given, example.bill
    grid = RealGrid(chain)
    # The times of the page, moved to the future of the chain's clock.
    offset = grid.ledger.head().timestamp + 600 - given["started, Unix seconds"]
    started = given["started, Unix seconds"] + offset
    settled = given["time of the settling block"] + offset
    grid._act(chain.provider, Register(hardware=HARDWARE, prices=example.prices, labels=()))
    grid.approve()
    chain.anvil.rpc("evm_setNextBlockTimestamp", started - 10)
    number = grid.request("script", escrow=given["escrow, credits"], resources=example.resources)
    before = grid.balances()
    grid.match(number)
    grid.claim()
    chain.anvil.rpc("evm_setNextBlockTimestamp", settled - 1)
    grid.run(number, started)
    chain.anvil.rpc("evm_setNextBlockTimestamp", settled)
    # One second more than the elapsed time: the elapsed time is billed.
    bound = expected["seconds since the start, on chain"]
    snapshot = chain.anvil.rpc("evm_snapshot")
    settle(grid, number, bound + 1)
    assert history_event(chain, number).numbers["billedSeconds"] == bound
    chain.anvil.rpc("evm_revert", snapshot)
    chain.anvil.rpc("evm_setNextBlockTimestamp", settled)
    settle(grid, number, expected["billed seconds"])

    numbers = history_event(chain, number).numbers
    after = grid.balances()
    assert chain.as_customer.fee_percent() == given["fee, percent"]
    assert job(grid, number).price_per_min == expected["price per minute, credits"]
    assert (numbers["billedSeconds"], numbers["cost"], numbers["fee"]) == (
        expected["billed seconds"],
        expected["cost, credits"],
        expected["fee"],
    )
    assert after[0] - before[0] == expected["refund"]
    assert after[1] - before[1] == expected["provider"]
    assert history_event(chain, number).evidence == evidence()


def job(grid, number):
    return grid.job(number)


def evidence():
    return "0x" + re.search(r"([0-9a-f]{64})  -$", PAGE.read_text(), re.MULTILINE)[1]


def settle(grid, number, seconds):
    call = Settle(
        job_key=job(grid, number).job_key,
        state=JobState.FINISHED,
        seconds=seconds,
        exit_code=0,
        error="",
        evidence=evidence(),
    )
    grid._act(grid.devnet.provider, call)


def history_event(chain, number):
    history = chain.as_customer.job_history(number)
    (settled,) = [event for event in history if event.event == "JobSettled"]
    return settled
