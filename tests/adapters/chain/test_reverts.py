# SPDX-License-Identifier: Apache-2.0
"""Contract calls that all generations of the contracts refuse, with their errors and arguments.

Some errors have the state of a job as an argument: the number of the state in ``JobState``.
"""

from __future__ import annotations

import pytest
from tests import billing_oracle
from tests.adapters.chain.generations import on_all
from tests.adapters.chain.grids import join_real_grid
from tests.devnet import COIN, wallet
from tests.fakes.ledger import PRICES, SMALL

from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import TransactionReverted

pytestmark = on_all

UNKNOWN_JOB = 10**9
MISSING_ROLE = "is missing role"
NAME = b"x".ljust(32, b"\0")
# A JobDefinition of Types.sol: gpus, memPerCpu, cpusPerTask, ntasks, batchLocationHash, ...
DEFINITION = (0, 100, 1, 1, "script", 0, [], [])
HARDWARE = (1, [0], [4], [1000])
OFFERED_PRICES = (1, 1, 1)


@pytest.fixture
def grid(chain):
    """The grid. The provider has joined the grid."""
    return join_real_grid(chain)


def call_contract(grid, wallet, function, *arguments, contract="meta_scheduler"):
    """Call a function of a contract with a wallet."""
    target = getattr(grid.devnet.contracts, contract)
    sender = DirectSender(grid.devnet.node, wallet)
    sender.transact(target.address, target.data(function, *arguments), name=function)


def error_of(grid, wallet, function, *arguments, contract="meta_scheduler"):
    """Call a function that reverts. Return the name and the arguments of the error."""
    with pytest.raises(TransactionReverted) as refusal:
        call_contract(grid, wallet, function, *arguments, contract=contract)
    return refusal.value.error_name, refusal.value.arguments


def status_error(grid, number, state, *, wallet=None):
    """Set the state of a job, by default with the provider's wallet. Return the error."""
    # The job, its state, the minutes, the error text and the exit code.
    arguments = (number.to_bytes(32), state, 1, "", 0)
    return error_of(grid, wallet or grid.devnet.provider, "providerSetJobStatus", *arguments)


def outsider_error(grid):
    """Return the error of a provider's call that the customer makes.

    DeepSquare 1.2 checks first whether the caller is a provider at all.
    """
    if grid.expected.version:
        return "JobProviderOnly", (grid.customer, grid.provider)
    return "ProviderNotJoined", ()


def job_in_state(grid, state):
    """Create a job in this state, and return its number."""
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


def test_invalid_request_reverts_with_its_error(grid):
    devnet = grid.devnet
    request = ("requestNewJob", DEFINITION, 200 * COIN, NAME, False)

    assert error_of(grid, devnet.customer, "requestNewJob", DEFINITION, 7, NAME, False) == (
        "InsufficientFunds",
        ("7", str(100 * COIN)),
    )
    for empty_resources in ((0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0)):
        definition = (*empty_resources, *DEFINITION[4:])
        error_name, _ = error_of(
            grid, devnet.customer, "requestNewJob", definition, 200 * COIN, NAME, False
        )
        assert error_name == "InvalidJobDefinition"
    assert error_of(grid, devnet.provider, *request) == (
        "Error",
        ("ERC20: insufficient allowance",),
    )
    call_contract(grid, devnet.admin, "setEnableRequestNewJob", False)
    assert error_of(grid, devnet.customer, *request) == ("NewJobRequestDisabled", ())


def test_invalid_match_reverts_with_its_error(grid):
    devnet, number = grid.devnet, job_in_state(grid, JobState.PENDING)
    job_id = number.to_bytes(32)
    cancelled_id = job_in_state(grid, JobState.CANCELLED).to_bytes(32)

    name, (message,) = error_of(grid, devnet.customer, "metaSchedule", job_id, grid.provider)
    assert name == "Error"
    assert MISSING_ROLE in message

    def match_error(job_id, provider):
        return error_of(grid, devnet.operator, "metaSchedule", job_id, provider)

    assert match_error(job_id, grid.customer) == ("ProviderNotJoined", ())
    assert match_error(UNKNOWN_JOB.to_bytes(32), grid.provider) == ("InvalidJob", ())
    assert match_error(cancelled_id, grid.provider) == ("JobHotStatusOnly", ("4",))
    grid.match(number)
    assert match_error(job_id, grid.provider) == ("SameStatusError", ())


@pytest.mark.parametrize(
    "function", ["claimNextJob", "claimNextCancellingJob", "claimNextTopUpJob"]
)
def test_invalid_claim_reverts_with_its_error(grid, function):
    assert error_of(grid, grid.devnet.customer, function) == ("ProviderNotJoined", ())
    assert error_of(grid, grid.devnet.provider, function) == ("NoJob", ())


def test_invalid_status_reverts_with_its_error(grid):
    devnet, number = grid.devnet, job_in_state(grid, JobState.SCHEDULED)

    error = status_error(grid, number, JobState.RUNNING, wallet=devnet.customer)
    assert error == outsider_error(grid)
    assert status_error(grid, number, JobState.META_SCHEDULED) == (
        "RunningColdStatusOnly",
        ("1",),
    )
    assert status_error(grid, number, JobState.FINISHED) == ("InvalidTransition", ("2", "5"))
    grid.run(number, grid.ledger.head().timestamp)
    assert status_error(grid, number, JobState.RUNNING) == ("SameStatusError", ())
    # The bill must not depend on the second in which the settlement is mined. Otherwise the
    # transaction may need more gas than was estimated.
    grid.pass_time(60)
    grid.mine()
    grid.settle(number)
    assert status_error(grid, number, JobState.FAILED) == ("JobHotStatusOnly", ("5",))
    assert status_error(grid, UNKNOWN_JOB, JobState.FAILED) == ("InvalidJob", ())


def test_invalid_refusal_reverts_with_its_error(grid):
    number = job_in_state(grid, JobState.RUNNING)
    job_id = number.to_bytes(32)

    assert error_of(grid, grid.devnet.customer, "refuseJob", job_id) == outsider_error(grid)
    assert error_of(grid, grid.devnet.provider, "refuseJob", job_id) == (
        "MetaScheduledScheduledStatusOnly",
        ("3",),
    )
    # DeepSquare 1.2 checks the transition first.
    timeout_error = ("MetaScheduledScheduledStatusOnly", ("3",))
    if not grid.expected.version:
        timeout_error = ("InvalidTransition", ("3", "0"))
    assert error_of(grid, grid.devnet.operator, "timeoutJob", job_id) == timeout_error


def test_invalid_cancel_reverts_with_its_error(grid):
    number = job_in_state(grid, JobState.PENDING)
    job_id = number.to_bytes(32)

    assert error_of(grid, grid.devnet.provider, "cancelJob", job_id) == (
        "CustomerOnly",
        (grid.provider, grid.customer),
    )
    grid.cancel(number)
    assert error_of(grid, grid.devnet.customer, "cancelJob", job_id) == ("JobHotStatusOnly", ("4",))
    assert error_of(grid, grid.devnet.operator, "panicJob", job_id, "why") == (
        "JobHotStatusOnly",
        ("4",),
    )


def test_invalid_top_up_reverts_with_its_error(grid):
    pending_id = job_in_state(grid, JobState.PENDING).to_bytes(32)
    running_id = job_in_state(grid, JobState.RUNNING).to_bytes(32)
    outsider = wallet(91)
    grid.devnet.anvil.fund(outsider.address)

    assert error_of(grid, grid.devnet.customer, "topUpJob", pending_id, 1) == (
        "RunningScheduledStatusOnly",
        ("0",),
    )
    top_up = ("topUpJobDelegate", running_id)
    assert error_of(grid, outsider, *top_up) == ("CustomerMetaSchedulerProviderOnly", ())
    assert error_of(grid, grid.devnet.customer, *top_up) == ("NoSpendingAuthority", ())
    allow = ("setDelegateSpendingAuthority", running_id, True)
    assert error_of(grid, outsider, *allow) == ("CustomerOnly", (outsider.address, grid.customer))
    call_contract(grid, grid.devnet.customer, *allow)
    price = billing_oracle.price(SMALL, PRICES)
    paid_min = billing_oracle.paid_seconds(200 * COIN, price) // 60
    # The arguments of the error are the paid minutes and the limit of the contract.
    assert error_of(grid, grid.devnet.provider, *top_up) == (
        "RemainingTimeAboveLimit",
        (str(paid_min), "30"),
    )


def test_invalid_registration_reverts_with_its_error(grid):
    assert error_of_register(grid, (0, [], [], [])) == ("InvalidNodesCount", ())
    assert error_of_register(grid, (2, [0], [4], [1000])) == ("ArrayLengthMismatch", ())
    assert error_of_register(grid, (1, [0], [0], [1000])) == ("InvalidTotalCpus", ())
    assert error_of_register(grid, (1, [0], [4], [0])) == ("InvalidTotalMem", ())


def error_of_register(grid, hardware):
    """Register hardware with the provider's wallet, and return the error."""
    arguments = ("register", hardware, OFFERED_PRICES, [])
    return error_of(grid, grid.devnet.provider, *arguments, contract="providers")


def test_invalid_provider_administration_reverts_with_its_error(grid):
    def admin_error(function, address):
        return error_of(grid, grid.devnet.admin, function, address, contract="providers")

    outsider = wallet(91).address
    _, (message,) = error_of(
        grid, grid.devnet.customer, "approve", grid.provider, contract="providers"
    )
    assert MISSING_ROLE in message
    assert admin_error("approve", outsider) == ("WaitingApprovalOnly", ())
    assert admin_error("approve", grid.provider) == ("AlreadyDone", ())
    assert admin_error("remove", outsider) == ("NoProvider", ())
    assert admin_error("unban", grid.provider) == ("AlreadyDone", ())
    call_contract(grid, grid.devnet.admin, "ban", grid.provider, contract="providers")
    assert admin_error("ban", grid.provider) == ("AlreadyDone", ())
    assert error_of_register(grid, HARDWARE) == ("Banned", ())
