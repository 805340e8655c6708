# SPDX-License-Identifier: Apache-2.0
"""The double of the contracts of DeepSquare 1.2 behaves like the original in these details.

The original's byte-code was compared with Gridstead's contracts in random runs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.adapters.chain.grids import join_real_grid
from tests.devnet import COIN, wallet
from tests.fakes.ledger import HARDWARE, PRICES, SMALL

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.chain.events import ChainEventKind
from gridstead.domain.jobs.billing import price_per_minute
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import TransactionReverted

OTHER_PROVIDER = wallet(5)
DOUBLE_PRICES = replace(PRICES, cpu_per_min=2 * PRICES.cpu_per_min)


@pytest.fixture
def generation():
    """Run all tests of this module on the contracts of DeepSquare 1.2."""
    return "1.2"


@pytest.fixture
def grid(chain):
    """The grid. The provider has joined the grid."""
    return join_real_grid(chain)


@pytest.fixture
def other_provider(chain, grid):
    """A second provider that has joined the grid, at about twice the price."""
    chain.anvil.fund(OTHER_PROVIDER.address)
    hardware = (
        HARDWARE.node_count,
        HARDWARE.gpus_per_node,
        HARDWARE.cpus_per_node,
        HARDWARE.memory_per_node_mb,
    )
    prices = (
        DOUBLE_PRICES.gpu_per_min,
        DOUBLE_PRICES.cpu_per_min,
        DOUBLE_PRICES.memory_mb_per_min,
    )
    call(grid, OTHER_PROVIDER, "register", hardware, prices, [], contract="providers")
    chain.as_admin.approve_provider(OTHER_PROVIDER.address)
    return OTHER_PROVIDER


def call(grid, sender, function, *arguments, contract="meta_scheduler"):
    """Call a function of a contract with a wallet, and return the receipt."""
    target = getattr(grid.devnet.contracts, contract)
    direct = DirectSender(grid.devnet.node, sender)
    return direct.transact(target.address, target.data(function, *arguments), name=function)


def error_of(grid, sender, function, *arguments):
    """Call a function that reverts. Return the name and the arguments of the error."""
    with pytest.raises(TransactionReverted) as refusal:
        call(grid, sender, function, *arguments)
    return refusal.value.error_name, refusal.value.arguments


def id_of(number):
    """Return the id of a job in the contracts' calls."""
    return number.to_bytes(32)


def end(grid, number, state=JobState.FINISHED, *, minutes=1):
    """Report the end of a job as its provider, and return the receipt."""
    arguments = (id_of(number), state, minutes, "", 0)
    return call(grid, grid.devnet.provider, "providerSetJobStatus", *arguments)


def events_of(receipt):
    """Return the names and the fields of a receipt's events, in order."""
    types = {}
    for contract in ("MetaScheduler", "JobRepository", "Credit"):
        for name, event in artifact(contract).events.items():
            types[event.topic] = (name, event)
    events = []
    for log in receipt["logs"]:
        name, event = types[log["topics"][0]]
        events.append((name, event.decode(log)))
    return events


def event_of(receipt, name):
    """Return the fields of the only event with this name."""
    (fields,) = [fields for event_name, fields in events_of(receipt) if event_name == name]
    return fields


def running_job(grid, **fields):
    """Return the number of a job that the provider has just started."""
    number = grid.request("script", **fields)
    grid.match(number)
    grid.claim()
    grid.run(number, 0)
    return number


def time_of(grid, number):
    """Return submit, start, end, cancel request, block of the last transition, and panic."""
    view = grid.devnet.contracts.jobs.get(number)
    (answer,) = grid.devnet.node.read([view.read], at_block=grid.ledger.head())
    return view.value(answer).fields[6]


@pytest.mark.parametrize(
    ("elapsed_s", "reported_min", "billed_min"),
    [(30, 0, 1), (30, 15, 15), (30, 16, 0), (60, 17, 1), (130, 0, 1), (130, 17, 17), (130, 18, 2)],
)
def test_report_above_the_slack_bills_the_elapsed_whole_minutes(
    grid, elapsed_s, reported_min, billed_min
):
    number = running_job(grid)
    grid.pass_time(elapsed_s)

    receipt = end(grid, number, minutes=reported_min)

    price = price_per_minute(SMALL, PRICES)
    assert grid.job(number).final_cost == billed_min * price
    has_event = "BilledTooMuchEvent" in dict(events_of(receipt))
    assert has_event == (billed_min < reported_min)


def rematched_job(grid, other_provider):
    """Return a job that the provider refused, and that is now matched to the other provider.

    The queue of the first provider still has an entry of the job.
    """
    number = grid.request("script", escrow=200 * COIN)
    grid.match(number)
    grid.refuse(number)
    operator = grid.devnet.operator
    call(grid, operator, "metaSchedule", id_of(number), other_provider.address)
    return number


def test_claim_of_a_stale_entry_names_the_provider_of_the_job(grid, other_provider):
    number = rematched_job(grid, other_provider)
    first_block = grid.ledger.head().number + 1

    receipt = call(grid, grid.devnet.provider, "claimNextJob")

    claim = event_of(receipt, "ClaimJobEvent")
    assert claim["providerAddr"].lower() == other_provider.address
    price = price_per_minute(SMALL, DOUBLE_PRICES)
    assert claim["maxDurationMinute"] == 200 * COIN // price
    assert grid.job(number).state is JobState.SCHEDULED
    # Therefore the supervisor of the other provider finds its job.
    events = grid.ledger.events(first=first_block, end=grid.ledger.head())
    (claimed,) = [event for event in events if event.kind is ChainEventKind.JOB_CLAIMED]
    assert claimed.provider == other_provider.address


def test_claim_of_a_stale_top_up_uses_the_prices_of_the_provider_of_the_job(grid, other_provider):
    number = grid.request("script")
    grid.match(number)
    grid.claim()
    grid.top_up(number, 60 * COIN)
    grid.refuse(number)
    operator = grid.devnet.operator
    call(grid, operator, "metaSchedule", id_of(number), other_provider.address)

    receipt = call(grid, grid.devnet.provider, "claimNextTopUpJob")

    minutes = event_of(receipt, "ClaimNextTopUpJobEvent")["maxDurationMinute"]
    assert minutes == 60 * COIN // price_per_minute(SMALL, DOUBLE_PRICES)


def test_panic_that_a_provider_reports_has_a_time(grid):
    number = running_job(grid)

    end(grid, number, JobState.PANICKED)

    *_, panicked_at = time_of(grid, number)
    assert panicked_at == grid.ledger.head().timestamp


def test_end_without_a_panic_has_no_time_of_a_panic(grid):
    number = running_job(grid)

    end(grid, number)

    *_, panicked_at = time_of(grid, number)
    assert panicked_at == 0


@pytest.mark.parametrize(
    ("function", "arguments"), [("cancelJob", ()), ("setDelegateSpendingAuthority", (True,))]
)
def test_calls_about_an_ended_job_revert_with_its_state_for_everybody(grid, function, arguments):
    number = grid.request("script")
    assert error_of(grid, grid.devnet.provider, function, id_of(number), *arguments) == (
        "CustomerOnly",
        (grid.provider, grid.customer),
    )
    grid.cancel(number)

    for sender in (grid.devnet.customer, grid.devnet.provider):
        error = error_of(grid, sender, function, id_of(number), *arguments)
        assert error == ("JobHotStatusOnly", (str(int(JobState.CANCELLED)),))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [("refuseJob", ()), ("providerSetJobStatus", (JobState.RUNNING, 0, "", 0))],
)
def test_account_that_has_not_joined_is_refused_before_the_provider_is_compared(
    grid, function, arguments
):
    number = grid.request("script")
    grid.match(number)

    error = error_of(grid, grid.devnet.customer, function, id_of(number), *arguments)

    assert error == ("ProviderNotJoined", ())


def test_timeout_of_a_job_in_another_state_reverts_with_the_error_of_the_transition(grid):
    running_number = running_job(grid)
    ended_number = grid.request("script")
    grid.cancel(ended_number)
    pending_number = grid.request("script")

    def timeout_error(number):
        return error_of(grid, grid.devnet.operator, "timeoutJob", id_of(number))

    running, pending = str(int(JobState.RUNNING)), str(int(JobState.PENDING))
    assert timeout_error(running_number) == ("InvalidTransition", (running, pending))
    assert timeout_error(ended_number) == ("JobHotStatusOnly", (str(int(JobState.CANCELLED)),))
    assert timeout_error(pending_number) == ("SameStatusError", ())


def test_request_with_an_unknown_storage_type_reverts_without_an_error(grid):
    def request(storage_type, escrow):
        definition = (0, 100, 1, 1, "script", storage_type, [], [])
        call(grid, grid.devnet.customer, "requestNewJob", definition, escrow, bytes(32), False)

    request(4, 200 * COIN)
    with pytest.raises(TransactionReverted) as refusal:
        request(5, 0)

    # Not InsufficientFunds: the type is checked before the amount.
    assert refusal.value.error_name == "unknown"


def test_job_that_uses_its_whole_escrow_has_a_transfer_of_0_to_its_customer(grid):
    price = price_per_minute(SMALL, PRICES)
    minutes = -(-100 * COIN // price)
    number = running_job(grid, escrow=100 * COIN)
    grid.pass_time(60 * minutes)

    receipt = end(grid, number, minutes=minutes)

    transfers = [fields for name, fields in events_of(receipt) if name == "Transfer"]
    assert [fields["to"].lower() for fields in transfers] == [grid.provider, grid.customer]
    assert [fields["value"] for fields in transfers] == [80 * COIN, 0]


def names_of_events(receipt):
    return [name for name, _ in events_of(receipt)]


def test_credits_move_before_the_event_of_the_transition(grid):
    billed_number = running_job(grid)
    grid.pass_time(60)
    settlement = end(grid, billed_number, minutes=100)
    cancelled_number, panicked_number = grid.request("script"), grid.request("script")
    cancellation = call(grid, grid.devnet.customer, "cancelJob", id_of(cancelled_number))
    panic = call(grid, grid.devnet.operator, "panicJob", id_of(panicked_number), "lost")

    assert names_of_events(settlement) == [
        "BilledTooMuchEvent",
        "Transfer",
        "Transfer",
        "JobTransitionEvent",
    ]
    assert names_of_events(cancellation) == ["Transfer", "JobTransitionEvent"]
    assert names_of_events(panic) == ["Transfer", "JobTransitionEvent"]
    assert grid.job(billed_number).state_block == int(settlement["blockNumber"], 16)


def test_job_that_never_ran_starts_at_its_end(grid):
    pending_number, claimed_number = grid.request("script"), grid.request("script")
    grid.match(claimed_number)
    grid.claim()
    grid.cancel(pending_number)
    cancelled_at = grid.ledger.head().timestamp
    grid.pass_time(60)
    end(grid, claimed_number, JobState.FAILED)

    _, started_at, ended_at, *_ = time_of(grid, pending_number)
    assert (started_at, ended_at) == (cancelled_at, cancelled_at)
    _, started_at, ended_at, *_ = time_of(grid, claimed_number)
    assert (started_at, ended_at) == (grid.ledger.head().timestamp, grid.ledger.head().timestamp)
    # Our services read that the jobs never ran.
    assert grid.job(pending_number).started_at == 0
    assert grid.job(claimed_number).started_at == 0


def test_job_that_ran_keeps_its_start(grid):
    number = running_job(grid)
    started_at = grid.ledger.head().timestamp
    grid.pass_time(60)

    end(grid, number)

    _, start, ended_at, *_ = time_of(grid, number)
    assert (start, ended_at) == (started_at, grid.ledger.head().timestamp)
    assert grid.job(number).started_at == started_at
