# SPDX-License-Identifier: Apache-2.0
"""Functions that measure the calls of customers in the dearest state of the contracts.

Between the estimate of the gas and the block of the transaction, other accounts can change the
state. The contracts therefore require more gas than the call can need in any state (GasFloors.sol).
"""

from __future__ import annotations

from tests.contracts.gas_grid import DEFINITION, ESCROW, NAME, Figures, GasGrid

LABEL = ("k" * 64, "v" * 64)
LONGEST_SCRIPT_ID = "s" * 128
MOST_LABELS = 16
MINUTE_S = 60
# The four numbers and the storage type of a job, as in DEFINITION.
_RESOURCES, _STORAGE = DEFINITION[:4], DEFINITION[5]


def measure_extremes(grid: GasGrid) -> Figures:
    """Return the gas of each call in the dearest state: no slot that it writes has a value."""
    figures = {call: _request_alone(grid, definition) for call, definition in REQUESTS.items()}
    grid.request()  # so that the contract has credits, and the refunds below clear no slot
    figures["cancelJob"] = _cancel(grid)
    figures["topUpJob"] = _top_up(grid)
    figures["topUpJobDelegate"] = _top_up_delegated(grid)
    return figures


def request_data_sizes(grid: GasGrid) -> Figures:
    """Return the size of each request's calldata in bytes."""
    sizes = {}
    for call, definition in REQUESTS.items():
        data = grid.contract.encode_abi("requestNewJob", [definition, ESCROW, NAME, True])
        sizes[call] = len(bytes.fromhex(data[2:]))
    return sizes


def _definition(script_id: str, *, conditions: int = 0) -> tuple:
    return (*_RESOURCES, script_id, _STORAGE, [], [(LABEL, b"==")] * conditions)


REQUESTS = {
    "requestNewJob": DEFINITION,
    "requestNewJob, longest script id": _definition(LONGEST_SCRIPT_ID),
    "requestNewJob, longest texts": _definition(LONGEST_SCRIPT_ID, conditions=MOST_LABELS),
}


def _request(grid: GasGrid, definition: tuple, customer: str) -> int:
    return grid.send(customer, grid.meta.requestNewJob(definition, ESCROW, NAME, True))


def _request_alone(grid: GasGrid, definition: tuple) -> int:
    """Return the gas of the first job of a customer, while the contract has no credits."""
    customer = grid.new_customer()
    gas = _request(grid, definition, customer)
    grid.send(customer, grid.meta.cancelJob(*grid.newest_job_ids()))
    return gas


def _job_in_step(grid: GasGrid, step: str) -> tuple[bytes, str, str]:
    """Return a job of a new customer that a new provider has, and the two accounts."""
    customer, provider = grid.new_customer(), grid.new_provider()
    _request(grid, DEFINITION, customer)
    (job,) = grid.newest_job_ids()
    grid.send(grid.matcher, grid.meta.metaSchedule(job, provider))
    if step != "match":
        grid.send(provider, grid.meta.claimNextJob())
    if step == "start":
        grid.send(provider, grid.meta.setJobRunning(job, grid.now()))
    return job, customer, provider


def _cancel(grid: GasGrid) -> int:
    job, customer, _ = _job_in_step(grid, "match")
    # The refund is the dearest if the customer has no credits.
    rest = grid.credit.functions.balanceOf(customer).call()
    grid.send(customer, grid.credit.functions.transfer(grid.admin, rest))
    return grid.send(customer, grid.meta.cancelJob(job))


def _top_up(grid: GasGrid) -> int:
    job, customer, _ = _job_in_step(grid, "claim")
    return grid.send(customer, grid.meta.topUpJob(job, ESCROW - 1))


def _top_up_delegated(grid: GasGrid) -> int:
    job, _, provider = _job_in_step(grid, "start")
    grid.pass_time(45 * MINUTE_S)
    return grid.send(provider, grid.meta.topUpJobDelegate(job))
