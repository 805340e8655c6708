# SPDX-License-Identifier: Apache-2.0
"""Test that the contracts bill the example of docs/explanation/billing.md as the page says."""

from __future__ import annotations

import re

from tests.adapters.chain.grids import RealGrid
from tests.billing_page import PAGE, read_example
from tests.fakes.ledger import HARDWARE

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import Register, Settle


def test_example_is_settled_with_the_amounts_of_the_page(chain):
    example = read_example(PAGE.read_text())
    given_values, expected_bill = example.given, example.bill
    grid = RealGrid(chain)
    # The times of the page are earlier than the newest block. Therefore, the test starts the job 10
    # minutes after the newest block.
    started_at = grid.ledger.head().timestamp + 600
    elapsed_s = given_values["time of the settling block"] - given_values["started, Unix seconds"]
    settled_at = started_at + elapsed_s
    grid._act(chain.provider, Register(hardware=HARDWARE, prices=example.prices, labels=()))
    grid.approve()
    chain.anvil.rpc("evm_setNextBlockTimestamp", started_at - 10)
    number = grid.request(
        "script", escrow=given_values["escrow, credits"], resources=example.resources
    )
    customer_before, provider_before = grid.balances()
    grid.match(number)
    grid.claim()
    chain.anvil.rpc("evm_setNextBlockTimestamp", settled_at - 1)
    grid.run(number, started_at)
    chain.anvil.rpc("evm_setNextBlockTimestamp", settled_at)
    # A report of more than the elapsed time is billed as the elapsed time.
    max_billed_s = expected_bill["seconds since the start, on chain"]
    snapshot = chain.anvil.rpc("evm_snapshot")
    settle(grid, number, max_billed_s + 1)
    assert settlement_event(chain, number).numbers["billedSeconds"] == max_billed_s
    chain.anvil.rpc("evm_revert", snapshot)
    chain.anvil.rpc("evm_setNextBlockTimestamp", settled_at)
    settle(grid, number, expected_bill["billed seconds"])

    numbers = settlement_event(chain, number).numbers
    customer_after, provider_after = grid.balances()
    assert chain.as_customer.fee_percent() == given_values["fee, percent"]
    assert grid.job(number).price_per_min == expected_bill["price per minute, credits"]
    assert (numbers["billedSeconds"], numbers["cost"], numbers["fee"]) == (
        expected_bill["billed seconds"],
        expected_bill["cost, credits"],
        expected_bill["fee"],
    )
    assert customer_after - customer_before == expected_bill["refund"]
    assert provider_after - provider_before == expected_bill["provider"]
    assert settlement_event(chain, number).evidence == evidence_of_page()


def evidence_of_page():
    """Return the hash that the page shows as the output of sha256sum."""
    return "0x" + re.search(r"([0-9a-f]{64})  -$", PAGE.read_text(), re.MULTILINE)[1]


def settle(grid, number, seconds):
    call = Settle(
        job_key=grid.job(number).job_key,
        state=JobState.FINISHED,
        seconds=seconds,
        exit_code=0,
        error="",
        evidence=evidence_of_page(),
    )
    grid._act(grid.devnet.provider, call)


def settlement_event(chain, number):
    """Return the event JobSettled of a job."""
    history = chain.as_customer.job_history(number)
    events = {event.event: event for event in history}
    return events["JobSettled"]
