# SPDX-License-Identifier: Apache-2.0
"""MetaScheduler: the contract that people and services write to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gridstead.adapters.chain.abi import text
from gridstead.adapters.chain.contract import Contract, Payload, ViewCall, job_id
from gridstead.adapters.chain.money import CreditPermit
from gridstead.domain.lifecycle import JobState

Match = tuple[bytes, str, int]  # job id, provider, highest price of the whole job per minute
Start = tuple[bytes, int]  # job id, Unix seconds
Settlement = tuple[
    bytes, int, int, int, str, bytes
]  # job id, state, seconds, exit code, error, evidence


class MetaSchedulerContract(Contract):
    """The steps of jobs. A batch (ours only) tells of an element that it had to skip, and goes on."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("MetaScheduler", address)

    def part(self, getter: str) -> ViewCall[str]:
        """Ask for the address of another contract of the grid, lower case, by the getter's name."""
        return self.view(lambda address: str(address).lower(), getter)

    def version(self) -> ViewCall[str]:
        """Ask for the version; ours only."""
        return self.view(text, "version")

    # For customers.

    def request_new_job(
        self, definition: tuple[Any, ...], escrow: int, name: bytes, *, delegate: bool
    ) -> Payload:
        """Lock the sender's credits and ask for a job."""
        return self.call("requestNewJob", definition, escrow, name, delegate)

    def request_new_job_with_permit(
        self,
        definition: tuple[Any, ...],
        escrow: int,
        name: bytes,
        permit: CreditPermit,
        *,
        delegate: bool,
    ) -> Payload:
        """Do the same with credits that a signature allows to lock; ours only."""
        signed = (permit.deadline, permit.v, permit.r, permit.s)
        return self.call("requestNewJobWithPermit", definition, escrow, name, delegate, *signed)

    def cancel_job(self, number: int) -> Payload:
        """End the sender's job, or have its provider end it."""
        return self.call("cancelJob", job_id(number))

    def top_up_job(self, number: int, amount: int) -> Payload:
        """Lock more of the sender's credits for a job."""
        return self.call("topUpJob", job_id(number), amount)

    # For the matching service and providers, one by one.

    def meta_schedule(self, number: int, provider: str) -> Payload:
        """Match a job."""
        return self.call("metaSchedule", job_id(number), provider)

    def claim_next_job(self) -> Payload:
        """Claim the first matched job that waits for the sender."""
        return self.call("claimNextJob")

    def claim_next_cancelling_job(self) -> Payload:
        """Take the first cancellation off the sender's queue."""
        return self.call("claimNextCancellingJob")

    def claim_next_top_up_job(self) -> Payload:
        """Take the first top-up off the sender's queue."""
        return self.call("claimNextTopUpJob")

    def refuse_job(self, number: int) -> Payload:
        """Give a job back."""
        return self.call("refuseJob", job_id(number))

    def timeout_job(self, number: int) -> Payload:
        """Take a job that does not run from its provider, at any time; for the matching service."""
        return self.call("timeoutJob", job_id(number))

    def expire_job(self, number: int) -> Payload:
        """End what a provider left lying for longer than the grid waits; ours only."""
        return self.call("expireJob", job_id(number))

    def provider_set_job_status(
        self, number: int, state: JobState, *, minutes: int = 0, error: str = "", exit_code: int = 0
    ) -> Payload:
        """Say that a job runs from now on, or that it has ended after so many whole minutes."""
        return self.call("providerSetJobStatus", job_id(number), state, minutes, error, exit_code)

    # The same in batches; ours only.

    def meta_schedule_many(self, matches: Iterable[Match], *, gas: int | None = None) -> Payload:
        """Match jobs, each at its highest price or less."""
        return self.call("metaScheduleMany", list(matches), gas=gas)

    def claim_jobs(self, most: int) -> Payload:
        """Claim up to so many jobs; none is no error."""
        return self.call("claimJobs", most)

    def claim_cancellations(self, most: int) -> Payload:
        """Take up to so many cancellations; none is no error."""
        return self.call("claimCancellations", most)

    def claim_top_ups(self, most: int) -> Payload:
        """Take up to so many top-ups; none is no error."""
        return self.call("claimTopUps", most)

    def refuse_many(self, numbers: Iterable[int], *, gas: int | None = None) -> Payload:
        """Give jobs back."""
        return self.call("refuseMany", [job_id(number) for number in numbers], gas=gas)

    def set_running_many(self, starts: Iterable[Start], *, gas: int | None = None) -> Payload:
        """Say since when jobs run."""
        return self.call("setRunningMany", list(starts), gas=gas)

    def settle_many(self, settlements: Iterable[Settlement], *, gas: int | None = None) -> Payload:
        """End jobs and divide their locks."""
        return self.call("settleMany", list(settlements), gas=gas)
