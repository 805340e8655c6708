# SPDX-License-Identifier: Apache-2.0
"""Random contract calls that are usually valid in the current state, so most jobs reach an end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import TypeVar

from tests.contracts.ledger import providers, steps
from tests.contracts.ledger.calls import Call
from tests.contracts.ledger.model import MAX_UINT, ContractModel
from tests.contracts.ledger.random_calls import BAD_DEFINITIONS, DEFINITIONS, TEXTS, RandomCalls
from tests.contracts.ledger.setup import Accounts
from tests.contracts.ledger.state import Job, Queue, QueueKind
from tests.devnet import COIN

from gridstead.domain.jobs.billing import price_per_minute
from gridstead.domain.jobs.lifecycle import COLD, HOT, JobState

GRID = "MetaScheduler"
INVALID_STATE = 9
T = TypeVar("T")


class NothingToDo(Exception):
    """The call needs a job or a provider that does not exist now."""


class SensibleCalls:
    """A source of random calls about jobs. Most calls are valid in the current state.

    Args:
        random: The source of randomness.
        model: The model of the contracts.
        accounts: The accounts that send the calls.
        random_calls: The source of accounts, signed permits and random elements of batches.
    """

    def __init__(
        self, random: Random, model: ContractModel, accounts: Accounts, random_calls: RandomCalls
    ) -> None:
        self._random = random
        self._model = model
        self._accounts = accounts
        self._random_calls = random_calls

    # Calls of customers.

    def request(self) -> Call:
        """Request a job."""
        customer = self._random.choice(
            (self._accounts.rich_customer.address,) * 4 + (self._accounts.poor_customer.address,)
        )
        minimum = self._model.state.constants["minimumAmount"]
        escrow = minimum + self._random.choice(
            [0, 0, 0, 1, 50 * COIN, 50 * COIN, 900 * COIN, 900 * COIN, -1]
        )
        return Call(customer, GRID, "requestNewJob", self._request_arguments(escrow))

    def request_with_permit(self) -> Call:
        """Request a job with a permit, which is sometimes invalid."""
        customer = self._random.choice(self._accounts.customers)
        escrow = self._model.state.constants["minimumAmount"] + self._random.choice([0, 33])
        signed_permit = self._random_calls.signed_permit(escrow, customer)
        return Call(
            customer,
            GRID,
            "requestNewJobWithPermit",
            (*self._request_arguments(escrow), *signed_permit),
        )

    def cancel(self) -> Call:
        """Cancel a job."""
        return self._cancel_call(
            self._job(JobState.PENDING, JobState.META_SCHEDULED, JobState.SCHEDULED)
        )

    def cancel_claimed(self) -> Call:
        """Request to cancel a claimed job, some time after the claim."""
        call = self._cancel_call(self._job(JobState.SCHEDULED))
        return replace(call, wait=self._draw_run_time_s())

    def cancel_run(self) -> Call:
        """Request to cancel a running job."""
        return self._cancel_call(self._job(JobState.RUNNING))

    def _cancel_call(self, job: Job) -> Call:
        return Call(job.customer, GRID, "cancelJob", (job.id,))

    def top_up(self) -> Call:
        """Top up a job. The amount is sometimes less than the price of a minute."""
        job = self._job(JobState.SCHEDULED, JobState.RUNNING)
        amount = self._random.choice([0, 1, job.price - 1, job.price, 3 * job.price + 1, 50 * COIN])
        payer = self._random.choice([job.customer, self._accounts.rich_customer.address])
        return Call(payer, GRID, "topUpJob", (job.id, max(0, amount)))

    def top_up_delegate(self) -> Call:
        """Top up a job with the customer's credits, sometimes after its paid time."""
        states: tuple[JobState, ...] = (JobState.SCHEDULED, JobState.RUNNING)
        if self._random.random() < 0.1:
            states = tuple(JobState)
        jobs = self._jobs(*states)
        # Some calls concern jobs whose customer does not allow such top-ups. The contract refuses
        # these calls.
        job = self._choice([job for job in jobs if job.delegates or self._random.random() < 0.2])
        sender = self._random.choice([job.customer, job.provider, self._accounts.operator.address])
        if sender not in {wallet.address for wallet in self._accounts.wallets}:
            sender = job.customer
        wait = self._random.choice([0, 1500, 3000, 60 * 200])
        return Call(sender, GRID, "topUpJobDelegate", (job.id,), wait=wait)

    def delegate(self) -> Call:
        """Set whether other accounts may top up a job."""
        job = self._job(*JobState)
        return Call(
            job.customer,
            GRID,
            "setDelegateSpendingAuthority",
            (job.id, self._random.random() < 0.8),
        )

    # Calls of the matching service.

    def match(self) -> Call:
        """Match a job with the function of DeepSquare 1.2."""
        return Call(
            self._operator,
            GRID,
            "metaSchedule",
            (self._job(JobState.PENDING).id, self._schedulable_provider()),
        )

    def match_at_most(self) -> Call:
        """Match a job, with a price limit near the price that the job has after the match."""
        job, provider = self._job(JobState.PENDING), self._schedulable_provider()
        return Call(
            self._operator,
            GRID,
            "metaScheduleAtMost",
            (job.id, provider, self._draw_price_limit(job, provider)),
        )

    def match_many(self) -> Call:
        """Match all pending jobs, usually with a valid price limit."""
        pending_jobs = self._jobs(JobState.PENDING)
        provider = self._schedulable_provider()
        matches = [
            (job.id, provider, self._draw_price_limit(job, provider)) for job in pending_jobs
        ]
        return Call(
            self._operator, GRID, "metaScheduleMany", (self._shuffled("metaScheduleMany", matches),)
        )

    def time_out(self) -> Call:
        """Unmatch a job. The state of the job becomes PENDING again."""
        return Call(self._operator, GRID, "timeoutJob", (self._job(*sorted(HOT)).id,))

    def panic(self) -> Call:
        """Panic a job."""
        job = self._job(*sorted(HOT))
        return Call(self._operator, GRID, "panicJob", (job.id, self._random.choice(TEXTS)))

    # Calls of providers.

    def claim(self) -> Call:
        """Claim one job."""
        return Call(self._provider_with_entries(QueueKind.CLAIMABLE), GRID, "claimNextJob")

    def claim_many(self) -> Call:
        """Claim several jobs."""
        return Call(
            self._provider_with_entries(QueueKind.CLAIMABLE),
            GRID,
            "claimJobs",
            (self._random.choice([0, 1, 2, 50, MAX_UINT]),),
        )

    def claim_other(self) -> Call:
        """Claim waiting cancellations or waiting top-ups: one, or several."""
        filled_kinds = {
            kind for (kind, _), queue in self._model.state.queues.items() if queue.waiting
        }
        kind = self._choice(sorted(filled_kinds - {QueueKind.CLAIMABLE}))
        single, batch = {
            QueueKind.CANCELLING: ("claimNextCancellingJob", "claimCancellations"),
            QueueKind.TOP_UP: ("claimNextTopUpJob", "claimTopUps"),
        }[kind]
        if self._random.random() < 0.5:
            return Call(self._provider_with_entries(kind), GRID, single)
        return Call(
            self._provider_with_entries(kind), GRID, batch, (self._random.choice([1, 3, 50]),)
        )

    def refuse(self) -> Call:
        """Refuse a job."""
        job = self._job(JobState.META_SCHEDULED, JobState.SCHEDULED, JobState.RUNNING)
        return Call(job.provider, GRID, "refuseJob", (job.id,))

    def refuse_many(self) -> Call:
        """Refuse all jobs of a provider."""
        jobs = self._jobs_of_one_provider(JobState.META_SCHEDULED, JobState.SCHEDULED)
        ids = self._shuffled("refuseMany", [job.id for job in jobs])
        return Call(jobs[0].provider, GRID, "refuseMany", (ids,))

    def start(self) -> Call:
        """Start a job, sometimes with the function of DeepSquare 1.2.

        Other calls report a start time, which is sometimes invalid.
        """
        job = self._job(JobState.SCHEDULED)
        if self._random.random() < 0.4:
            report = self._random.choice([("", 0), ("slow disk", 0), ("", -2)])
            return Call(
                job.provider, GRID, "providerSetJobStatus", (job.id, JobState.RUNNING, 0, *report)
            )
        return Call(job.provider, GRID, "setJobRunning", (job.id, self._draw_start_time(job)))

    def start_many(self) -> Call:
        """Start all jobs of a provider."""
        jobs = self._jobs_of_one_provider(JobState.SCHEDULED)
        starts = self._shuffled(
            "setRunningMany", [(job.id, self._draw_start_time(job)) for job in jobs]
        )
        return Call(jobs[0].provider, GRID, "setRunningMany", (starts,))

    def settle(self) -> Call:
        """Settle a job with a bill in seconds."""
        # A running job has three times the weight of a job that has not started.
        job = self._job(JobState.RUNNING, JobState.RUNNING, JobState.RUNNING, JobState.SCHEDULED)
        wait = self._draw_run_time_s()
        return Call(job.provider, GRID, "settleJob", self._draw_settlement(job, wait), wait=wait)

    def settle_many(self) -> Call:
        """Settle all running jobs of a provider."""
        jobs, wait = self._jobs_of_one_provider(JobState.RUNNING), self._draw_run_time_s()
        settlements = self._shuffled(
            "settleMany", [self._draw_settlement(job, wait) for job in jobs]
        )
        return Call(jobs[0].provider, GRID, "settleMany", (settlements,), wait=wait)

    def end_request(self) -> Call:
        """Refuse, start or settle a job that was cancelled before its recorded start."""
        jobs = self._jobs(JobState.SCHEDULED, JobState.RUNNING)
        job = self._choice([job for job in jobs if job.requested_unstarted])
        if job.state is JobState.RUNNING:
            wait = self._draw_run_time_s()
            settlement = self._draw_settlement(job, wait)
            return Call(job.provider, GRID, "settleJob", settlement, wait=wait)
        if self._random.random() < 0.5:
            return Call(job.provider, GRID, "refuseJob", (job.id,))
        return Call(job.provider, GRID, "setJobRunning", (job.id, job.claimed_at))

    def settle_by_minutes(self) -> Call:
        """Settle a job with the function of DeepSquare 1.2, which bills whole minutes."""
        job = self._job(
            JobState.RUNNING, JobState.RUNNING, JobState.SCHEDULED, JobState.META_SCHEDULED
        )
        wait = self._draw_run_time_s()
        _, status, seconds, exit_code, error, _ = self._draw_settlement(job, wait)
        arguments = (job.id, status, seconds // 60, error, exit_code)
        return Call(job.provider, GRID, "providerSetJobStatus", arguments, wait=wait)

    # Calls of any account.

    def expire(self) -> Call:
        """Expire a job at one of two times: exactly at its timeout, or one second (block) later.

        The contract refuses the first of these times, because it is too early.
        """
        return self._expiry_call(
            self._job(JobState.META_SCHEDULED, JobState.SCHEDULED, JobState.RUNNING)
        )

    def expire_cancelled(self) -> Call:
        """Expire a job whose customer requested to cancel it. Times as in ``expire``."""
        jobs = self._jobs(JobState.SCHEDULED, JobState.RUNNING)
        return self._expiry_call(self._choice([job for job in jobs if job.cancel_requested]))

    def _expiry_call(self, job: Job) -> Call:
        call_time = steps.expiry(self._model, job) + self._random.randint(0, 1)
        call = Call(self._random_calls.account(), GRID, "expireJob", (job.id,))
        if job.state is not JobState.META_SCHEDULED:
            return replace(call, wait=max(0, call_time - self._model.now))
        blocks = call_time - self._model.block
        if blocks > 40:  # Each block takes time to mine.
            raise NothingToDo
        return replace(call, blocks=max(1, blocks))

    # Selection of jobs and providers.

    @property
    def _operator(self) -> str:
        return self._accounts.operator.address

    def _choice(self, candidates: Sequence[T]) -> T:
        if not candidates:
            raise NothingToDo
        return self._random.choice(candidates)

    def _jobs(self, *states: JobState) -> list[Job]:
        selected_jobs: list[Job] = []
        for state in states:
            selected_jobs += [job for job in self._model.state.jobs.values() if job.state is state]
        return selected_jobs

    def _job(self, *states: JobState) -> Job:
        return self._choice(self._jobs(*states))

    def _jobs_of_one_provider(self, *states: JobState) -> list[Job]:
        provider = self._job(*states).provider
        return [job for job in self._jobs(*states) if job.provider == provider]

    def _schedulable_provider(self) -> str:
        is_valid = partial(providers.is_valid_for_scheduling, self._model)
        return self._choice(list(filter(is_valid, self._accounts.providers)))

    def _provider_with_entries(self, kind: QueueKind) -> str:
        """Return a provider that has entries in a queue, or sometimes any other provider."""
        if self._random.random() >= 0.9:
            return self._choice(list(self._accounts.providers))
        return self._choice(
            list(filter(partial(self._has_entries, kind), self._accounts.providers))
        )

    def _has_entries(self, kind: QueueKind, provider: str) -> bool:
        return bool(self._model.state.queues.get((kind, provider), Queue()).waiting)

    # Arguments of calls.

    def _request_arguments(self, escrow: int) -> tuple:
        definitions = (*DEFINITIONS[:3], *DEFINITIONS)  # The first three have twice the weight.
        if self._random.random() < 0.08:
            definitions = BAD_DEFINITIONS
        definition = self._random.choice(definitions)
        return definition, max(0, escrow), b"job".ljust(32, b"\0"), self._random.random() < 0.6

    def _draw_price_limit(self, job: Job, provider: str) -> int:
        price = price_per_minute(job.resources, providers.standing(self._model, provider).prices)
        if self._random.random() >= 0.6:
            return MAX_UINT
        return max(0, price + self._random.choice([0, 0, 1, -1]))

    def _draw_start_time(self, job: Job) -> int:
        now = self._model.now
        return self._random.choice(
            [now, job.claimed_at, (job.claimed_at + now) // 2, job.claimed_at - 50, now + 50, 0]
        )

    def _draw_run_time_s(self) -> int:
        return self._random.choice([0, 1, 59, 61, 600, 3600, 86400])

    def _draw_settlement(self, job: Job, wait: int) -> tuple[bytes, int, int, int, str, bytes]:
        elapsed = 0
        if job.state is JobState.RUNNING:
            elapsed = max(0, self._model.now + wait - job.started_at)
        # Contracts of DeepSquare 1.2 allowed bills of up to 900 s more than the elapsed time.
        reports = [elapsed, elapsed, elapsed // 2, elapsed - 1, elapsed + 1, elapsed + 900, 0]
        seconds = min(max(0, self._random.choice(reports)), 2**64 - 1)
        status = self._random.choice(
            [JobState.FINISHED, *sorted(COLD), JobState.META_SCHEDULED, INVALID_STATE]
        )
        return (
            job.id,
            status,
            seconds,
            self._random.choice([0, 256, -1]),
            self._random.choice(TEXTS[:3]),
            job.id,
        )

    def _shuffled(self, function: str, elements: list) -> tuple:
        """Return the elements in a random order, sometimes with random elements added."""
        if self._random.random() < 0.4:
            (random_elements,) = self._random_calls.arguments(GRID, function)
            elements = [*elements, *random_elements]
        self._random.shuffle(elements)
        return tuple(elements)
