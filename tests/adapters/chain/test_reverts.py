# SPDX-License-Identifier: Apache-2.0
"""Both generations refuse the same published calls, with the same errors and arguments."""

from __future__ import annotations

import pytest
from tests import billing_oracle
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.generations import on_both
from tests.devnet import COIN, wallet
from tests.fakes.ledger import PRICES, SMALL

from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import TransactionReverted

pytestmark = on_both

UNKNOWN = 10**9
NAME = b"x".ljust(32, b"\0")
DEFINITION = (0, 100, 1, 1, "script", 0, [], [])
HARDWARE = (1, [0], [4], [1000])
PRICES_REQUESTED = (1, 1, 1)


@pytest.fixture
def grid(chain):
    real_grid = RealGrid(chain)
    real_grid.register()
    real_grid.approve()
    return real_grid


def refused(grid, who, function, *arguments, contract="meta_scheduler"):
    """Return name and arguments of a call's error."""
    target = getattr(grid.devnet.contracts, contract)
    with pytest.raises(TransactionReverted) as refusal:
        DirectSender(grid.devnet.node, who).transact(
            target.address, target.data(function, *arguments), name=function
        )
    return refusal.value.error_name, refusal.value.arguments


def done(grid, who, function, *arguments, contract="meta_scheduler"):
    target = getattr(grid.devnet.contracts, contract)
    DirectSender(grid.devnet.node, who).transact(
        target.address, target.data(function, *arguments), name=function
    )


def set_status(grid, number, state, *, who=None):
    arguments = (number.to_bytes(32), state, 1, "", 0)
    return refused(grid, who or grid.devnet.provider, "providerSetJobStatus", *arguments)


def job_in(grid, state):
    """Create a job in a state, and return its number."""
    number = grid.request("script")
    if state is JobState.CANCELLED:
        grid.cancel(number)
    if state in {JobState.META_SCHEDULED, JobState.SCHEDULED, JobState.RUNNING}:
        grid.match(number)
    if state in {JobState.SCHEDULED, JobState.RUNNING}:
        grid.claim()
    if state is JobState.RUNNING:
        grid.run(number, grid.ledger.head().timestamp)
    return number


def test_errors_of_request(grid):
    devnet = grid.devnet
    ask = ("requestNewJob", DEFINITION, 200 * COIN, NAME, False)

    assert refused(grid, devnet.customer, "requestNewJob", DEFINITION, 7, NAME, False) == (
        "InsufficientFunds",
        ("7", str(100 * COIN)),
    )
    for empty in ((0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0)):
        wrong = (*empty, *DEFINITION[4:])
        assert (
            refused(grid, devnet.customer, "requestNewJob", wrong, 200 * COIN, NAME, False)[0]
            == "InvalidJobDefinition"
        )
    name, (message,) = refused(grid, devnet.provider, *ask)
    assert (name, message) == ("Error", "ERC20: insufficient allowance")
    done(grid, devnet.admin, "setEnableRequestNewJob", False)
    assert refused(grid, devnet.customer, *ask) == ("NewJobRequestDisabled", ())


def test_errors_of_match(grid):
    devnet, number = grid.devnet, job_in(grid, JobState.PENDING)
    job_id, gone = number.to_bytes(32), job_in(grid, JobState.CANCELLED).to_bytes(32)

    name, (message,) = refused(grid, devnet.customer, "metaSchedule", job_id, grid.provider)
    assert (name, "is missing role" in message) == ("Error", True)
    assert refused(grid, devnet.operator, "metaSchedule", job_id, grid.customer) == (
        "ProviderNotJoined",
        (),
    )
    assert refused(grid, devnet.operator, "metaSchedule", UNKNOWN.to_bytes(32), grid.provider) == (
        "InvalidJob",
        (),
    )
    assert refused(grid, devnet.operator, "metaSchedule", gone, grid.provider) == (
        "JobHotStatusOnly",
        ("4",),
    )
    grid.match(number)
    assert refused(grid, devnet.operator, "metaSchedule", job_id, grid.provider) == (
        "SameStatusError",
        (),
    )


@pytest.mark.parametrize(
    "function", ["claimNextJob", "claimNextCancellingJob", "claimNextTopUpJob"]
)
def test_errors_of_claims(grid, function):
    assert refused(grid, grid.devnet.customer, function) == ("ProviderNotJoined", ())
    assert refused(grid, grid.devnet.provider, function) == ("NoJob", ())


def test_errors_of_set_status(grid):
    devnet, number = grid.devnet, job_in(grid, JobState.SCHEDULED)

    assert set_status(grid, number, JobState.RUNNING, who=devnet.customer) == (
        "JobProviderOnly",
        (grid.customer, grid.provider),
    )
    assert set_status(grid, number, JobState.META_SCHEDULED) == ("RunningColdStatusOnly", ("1",))
    assert set_status(grid, number, JobState.FINISHED) == ("InvalidTransition", ("2", "5"))
    grid.run(number, grid.ledger.head().timestamp)
    assert set_status(grid, number, JobState.RUNNING) == ("SameStatusError", ())
    grid.settle(number)
    assert set_status(grid, number, JobState.FAILED) == ("JobHotStatusOnly", ("5",))
    assert set_status(grid, UNKNOWN, JobState.FAILED) == ("InvalidJob", ())


def test_errors_of_refuse(grid):
    number = job_in(grid, JobState.RUNNING)
    job_id = number.to_bytes(32)

    assert refused(grid, grid.devnet.customer, "refuseJob", job_id) == (
        "JobProviderOnly",
        (grid.customer, grid.provider),
    )
    assert refused(grid, grid.devnet.provider, "refuseJob", job_id) == (
        "MetaScheduledScheduledStatusOnly",
        ("3",),
    )
    assert refused(grid, grid.devnet.operator, "timeoutJob", job_id) == (
        "MetaScheduledScheduledStatusOnly",
        ("3",),
    )


def test_errors_of_cancel(grid):
    number = job_in(grid, JobState.PENDING)
    job_id = number.to_bytes(32)

    assert refused(grid, grid.devnet.provider, "cancelJob", job_id) == (
        "CustomerOnly",
        (grid.provider, grid.customer),
    )
    grid.cancel(number)
    assert refused(grid, grid.devnet.customer, "cancelJob", job_id) == ("JobHotStatusOnly", ("4",))
    assert refused(grid, grid.devnet.operator, "panicJob", job_id, "why") == (
        "JobHotStatusOnly",
        ("4",),
    )


def test_errors_of_top_up(grid):
    waits, runs = job_in(grid, JobState.PENDING), job_in(grid, JobState.RUNNING)
    outsider = wallet(91)
    grid.devnet.anvil.fund(outsider.address)

    assert refused(grid, grid.devnet.customer, "topUpJob", waits.to_bytes(32), 1) == (
        "RunningScheduledStatusOnly",
        ("0",),
    )
    delegate = ("topUpJobDelegate", runs.to_bytes(32))
    assert refused(grid, outsider, *delegate) == ("CustomerMetaSchedulerProviderOnly", ())
    assert refused(grid, grid.devnet.customer, *delegate) == ("NoSpendingAuthority", ())
    allow = ("setDelegateSpendingAuthority", runs.to_bytes(32), True)
    assert refused(grid, outsider, *allow) == ("CustomerOnly", (outsider.address, grid.customer))
    done(grid, grid.devnet.customer, *allow)
    paid_min = billing_oracle.paid_seconds(200 * COIN, billing_oracle.price(SMALL, PRICES)) // 60
    assert refused(grid, grid.devnet.provider, *delegate) == (
        "RemainingTimeAboveLimit",
        (str(paid_min), "30"),
    )


def test_errors_of_register(grid):
    def wrong(hardware):
        return refused(
            grid,
            grid.devnet.provider,
            "register",
            hardware,
            PRICES_REQUESTED,
            [],
            contract="providers",
        )

    assert wrong((0, [], [], [])) == ("InvalidNodesCount", ())
    assert wrong((2, [0], [4], [1000])) == ("ArrayLengthMismatch", ())
    assert wrong((1, [0], [0], [1000])) == ("InvalidTotalCpus", ())
    assert wrong((1, [0], [4], [0])) == ("InvalidTotalMem", ())


def test_errors_of_provider_administration(grid):
    def by(who, function, address):
        return refused(grid, who, function, address, contract="providers")

    outsider, admin = wallet(91).address, grid.devnet.admin
    assert "is missing role" in by(grid.devnet.customer, "approve", grid.provider)[1][0]
    assert by(admin, "approve", outsider) == ("WaitingApprovalOnly", ())
    assert by(admin, "approve", grid.provider) == ("AlreadyDone", ())
    assert by(admin, "remove", outsider) == ("NoProvider", ())
    assert by(admin, "unban", grid.provider) == ("AlreadyDone", ())
    done(grid, admin, "ban", grid.provider, contract="providers")
    assert by(admin, "ban", grid.provider) == ("AlreadyDone", ())
    arguments = ("register", HARDWARE, PRICES_REQUESTED, [])
    assert refused(grid, grid.devnet.provider, *arguments, contract="providers") == ("Banned", ())
