# SPDX-License-Identifier: Apache-2.0
"""The contract MetaScheduler, to which customers and services send their transactions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gridstead.adapters.chain.abi import text
from gridstead.adapters.chain.contract import Contract, Payload, ViewCall, to_bytes32
from gridstead.adapters.chain.money import CreditPermit
from gridstead.domain.jobs.lifecycle import JobState

# The least gas limits of a customer's transactions. A node's estimate may be too low, because other
# accounts can change the state before the transaction is mined: the services match the job, start
# it, or empty a queue. The limits are above the gas in the dearest state of every generation: with
# our contracts, the last table of contracts/gas.md. Unused gas is not paid.
CANCEL_MIN_GAS = 400_000
TOP_UP_MIN_GAS = 400_000
REQUEST_MIN_GAS = 700_000
REQUEST_MIN_GAS_PER_BYTE = 600

# Job id, provider, and the highest price that the match allows: wei of Credit per minute of run
# time, for all resources of the job together.
Match = tuple[bytes, str, int]
# Job id, start time in Unix seconds.
Start = tuple[bytes, int]
# Job id, state, seconds, exit code, error, evidence.
Settlement = tuple[bytes, int, int, int, str, bytes]


class MetaSchedulerContract(Contract):
    """The contract that changes the states of jobs.

    If the contract refuses an element of a batch, the contract skips the element and emits an
    event. A function that is marked "ours only" exists in Gridstead's contracts, but not in the
    contracts of DeepSquare 1.2.
    """

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("MetaScheduler", address)

    def contract_address(self, getter: str) -> ViewCall[str]:
        """Return a call for the address of another contract of the grid, lower case.

        Args:
            getter: The function of MetaScheduler that returns the address, such as ``jobs``.
        """
        return self.view(lambda address: str(address).lower(), getter)

    def version(self) -> ViewCall[str]:
        """Return a call for the version; ours only."""
        return self.view(text, "version")

    # Transactions of customers.

    def request_new_job(
        self, definition: tuple[Any, ...], escrow: int, name: bytes, *, delegate_spending: bool
    ) -> Payload:
        """Request a job and hold the sender's credits in escrow."""
        payload = self.call("requestNewJob", definition, escrow, name, delegate_spending)
        return _with_request_gas(payload)

    def request_new_job_with_permit(
        self,
        definition: tuple[Any, ...],
        escrow: int,
        name: bytes,
        permit: CreditPermit,
        *,
        delegate_spending: bool,
    ) -> Payload:
        """Request a job with a signed permit instead of an allowance; ours only."""
        permit_fields = (permit.deadline, permit.v, permit.r, permit.s)
        payload = self.call(
            "requestNewJobWithPermit", definition, escrow, name, delegate_spending, *permit_fields
        )
        return _with_request_gas(payload)

    def cancel_job(self, number: int) -> Payload:
        """Cancel the sender's job. If the job is claimed, its provider ends it later."""
        return replace(self.call("cancelJob", to_bytes32(number)), min_gas=CANCEL_MIN_GAS)

    def top_up_job(self, number: int, amount: int) -> Payload:
        """Add credits of the sender to a job's escrow."""
        return replace(self.call("topUpJob", to_bytes32(number), amount), min_gas=TOP_UP_MIN_GAS)

    # Transactions of the meta-scheduler service and of providers, for one job.

    def meta_schedule(self, number: int, provider: str) -> Payload:
        """Match a job."""
        return self.call("metaSchedule", to_bytes32(number), provider)

    def claim_next_job(self) -> Payload:
        """Claim the first matched job that waits for the sender."""
        return self.call("claimNextJob")

    def claim_next_cancelling_job(self) -> Payload:
        """Remove the first cancellation from the sender's queue."""
        return self.call("claimNextCancellingJob")

    def claim_next_top_up_job(self) -> Payload:
        """Remove the first top-up from the sender's queue."""
        return self.call("claimNextTopUpJob")

    def refuse_job(self, number: int) -> Payload:
        """Refuse a claimed job. The job can then be matched again.

        A job with a request to cancel is CANCELLED instead.
        """
        return self.call("refuseJob", to_bytes32(number))

    def timeout_job(self, number: int) -> Payload:
        """Take a job away from its provider, at any time while the job does not run.

        Only the meta-scheduler service may send this transaction.
        """
        return self.call("timeoutJob", to_bytes32(number))

    def expire_job(self, number: int) -> Payload:
        """Take a job away from a provider that has not acted in time; ours only.

        A job that was not claimed becomes PENDING and can be matched again. A claimed or running
        job becomes PANICKED and is refunded in full.
        """
        return self.call("expireJob", to_bytes32(number))

    def provider_set_job_status(
        self, number: int, state: JobState, *, minutes: int = 0, error: str = "", exit_code: int = 0
    ) -> Payload:
        """Report that a job has just started, or that it ended after a number of minutes."""
        return self.call(
            "providerSetJobStatus", to_bytes32(number), state, minutes, error, exit_code
        )

    # Transactions of the meta-scheduler service and of providers, for a batch of jobs; ours only.

    def meta_schedule_many(self, matches: Iterable[Match], *, gas: int | None = None) -> Payload:
        """Match jobs. Each match states the highest price that it allows."""
        return self.call("metaScheduleMany", list(matches), gas=gas)

    def claim_jobs(self, limit: int) -> Payload:
        """Claim up to ``limit`` jobs. If no job waits, the call succeeds."""
        return self.call("claimJobs", limit)

    def claim_cancellations(self, limit: int) -> Payload:
        """Remove up to ``limit`` cancellations. If no cancellation waits, the call succeeds."""
        return self.call("claimCancellations", limit)

    def claim_top_ups(self, limit: int) -> Payload:
        """Remove up to ``limit`` top-ups. If no top-up waits, the call succeeds."""
        return self.call("claimTopUps", limit)

    def refuse_many(self, numbers: Iterable[int], *, gas: int | None = None) -> Payload:
        """Refuse claimed jobs. The jobs can then be matched again."""
        return self.call("refuseMany", list(map(to_bytes32, numbers)), gas=gas)

    def set_running_many(self, starts: Iterable[Start], *, gas: int | None = None) -> Payload:
        """Report the start times of jobs that run."""
        return self.call("setRunningMany", list(starts), gas=gas)

    def settle_many(self, settlements: Iterable[Settlement], *, gas: int | None = None) -> Payload:
        """End jobs and divide their escrow."""
        return self.call("settleMany", list(settlements), gas=gas)


def _with_request_gas(payload: Payload) -> Payload:
    """Return the payload of a request with its least gas limit. A request stores its calldata."""
    size = len(payload.data) // len("00")
    return replace(payload, min_gas=REQUEST_MIN_GAS + REQUEST_MIN_GAS_PER_BYTE * size)
