# SPDX-License-Identifier: Apache-2.0
"""Calls that are usually valid in the current state, so that most jobs run to their end."""

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
from tests.contracts.ledger.setup import Cast
from tests.contracts.ledger.state import Job, Kind, Queue
from tests.devnet import COIN

from gridstead.domain.jobs.billing import price_per_minute
from gridstead.domain.jobs.lifecycle import COLD, HOT, JobState

GRID = "MetaScheduler"
BEYOND_ALL_STATES = 9
S = JobState
T = TypeVar("T")


class NothingToDo(Exception):
    """The call needs a job or a provider that does not exist now."""


class SensibleCalls:
    """Draws calls.

    Args:
        random: The source of randomness.
        model: The model.
        cast: The accounts.
        random_calls: The source of invalid elements for batches.
    """

    def __init__(
        self, random: Random, model: ContractModel, cast: Cast, random_calls: RandomCalls
    ) -> None:
        self._random = random
        self._model = model
        self._cast = cast
        self._random_calls = random_calls

    # Calls of customers.

    def request(self) -> Call:
        """Request a job."""
        customer = self._random.choice((self._cast.rich.address,) * 4 + (self._cast.poor.address,))
        least = self._model.state.constants["minimumAmount"]
        escrow = least + self._random.choice(
            [0, 0, 0, 1, 50 * COIN, 50 * COIN, 900 * COIN, 900 * COIN, -1]
        )
        return Call(customer, GRID, "requestNewJob", self._request_arguments(escrow))

    def request_with_permit(self) -> Call:
        """Request a job with a permit, which is sometimes invalid."""
        customer = self._random.choice(self._cast.customers)
        escrow = self._model.state.constants["minimumAmount"] + self._random.choice([0, 33])
        permission = self._random_calls.permission(escrow, customer)
        return Call(
            customer,
            GRID,
            "requestNewJobWithPermit",
            (*self._request_arguments(escrow), *permission),
        )

    def cancel(self) -> Call:
        """Cancel a job."""
        return self._cancellation(self._job(S.PENDING, S.META_SCHEDULED, S.SCHEDULED))

    def cancel_run(self) -> Call:
        """Request to cancel a running job."""
        return self._cancellation(self._job(S.RUNNING))

    def _cancellation(self, job: Job) -> Call:
        return Call(job.customer, GRID, "cancelJob", (job.id,))

    def top_up(self) -> Call:
        """Top up a job, also by less than the price of a minute."""
        job = self._job(S.SCHEDULED, S.RUNNING)
        amount = self._random.choice([0, 1, job.price - 1, job.price, 3 * job.price + 1, 50 * COIN])
        payer = self._random.choice([job.customer, self._cast.rich.address])
        return Call(payer, GRID, "topUpJob", (job.id, max(0, amount)))

    def top_up_delegate(self) -> Call:
        """Top up a job with the customer's credits, also after its paid time."""
        states = tuple(S) if self._random.random() < 0.1 else (S.SCHEDULED, S.RUNNING)
        jobs = self._jobs(*states)
        job = self._choice([job for job in jobs if job.delegates or self._random.random() < 0.2])
        sender = self._random.choice([job.customer, job.provider, self._cast.operator.address])
        if sender not in {wallet.address for wallet in self._cast.wallets}:
            sender = job.customer
        wait = self._random.choice([0, 1500, 3000, 60 * 200])
        return Call(sender, GRID, "topUpJobDelegate", (job.id,), wait=wait)

    def delegate(self) -> Call:
        """Set whether other accounts may top up a job."""
        job = self._job(*S)
        return Call(
            job.customer,
            GRID,
            "setDelegateSpendingAuthority",
            (job.id, self._random.random() < 0.8),
        )

    # Calls of the matching service.

    def match(self) -> Call:
        """Match a job with the published call."""
        return Call(
            self._operator, GRID, "metaSchedule", (self._job(S.PENDING).id, self._free_provider())
        )

    def match_at_most(self) -> Call:
        """Match a job with a highest price near its price."""
        job, provider = self._job(S.PENDING), self._free_provider()
        return Call(
            self._operator,
            GRID,
            "metaScheduleAtMost",
            (job.id, provider, self._limit(job, provider)),
        )

    def match_many(self) -> Call:
        """Match all pending jobs, usually with a valid price."""
        pending = self._jobs(S.PENDING)
        provider = self._free_provider()
        matches = [(job.id, provider, self._limit(job, provider)) for job in pending]
        return Call(
            self._operator, GRID, "metaScheduleMany", (self._shuffled("metaScheduleMany", matches),)
        )

    def time_out(self) -> Call:
        """Take a job back from its provider."""
        return Call(self._operator, GRID, "timeoutJob", (self._job(*sorted(HOT)).id,))

    def panic(self) -> Call:
        """Panic a job."""
        job = self._job(*sorted(HOT))
        return Call(self._operator, GRID, "panicJob", (job.id, self._random.choice(TEXTS)))

    # Calls of providers.

    def claim(self) -> Call:
        """Claim one job."""
        return Call(self._waiting(Kind.CLAIMABLE), GRID, "claimNextJob")

    def claim_many(self) -> Call:
        """Claim several jobs."""
        return Call(
            self._waiting(Kind.CLAIMABLE),
            GRID,
            "claimJobs",
            (self._random.choice([0, 1, 2, 50, MAX_UINT]),),
        )

    def take_other(self) -> Call:
        """Claim one or several cancellations or top-ups."""
        waiting = {kind for (kind, _), queue in self._model.state.queues.items() if queue.waiting}
        kind = self._choice(sorted(waiting - {Kind.CLAIMABLE}))
        single, batch = {
            Kind.CANCELLING: ("claimNextCancellingJob", "claimCancellations"),
            Kind.TOP_UP: ("claimNextTopUpJob", "claimTopUps"),
        }[kind]
        if self._random.random() < 0.5:
            return Call(self._waiting(kind), GRID, single)
        return Call(self._waiting(kind), GRID, batch, (self._random.choice([1, 3, 50]),))

    def refuse(self) -> Call:
        """Refuse a job."""
        job = self._job(S.META_SCHEDULED, S.SCHEDULED, S.RUNNING)
        return Call(job.provider, GRID, "refuseJob", (job.id,))

    def refuse_many(self) -> Call:
        """Refuse all jobs of a provider."""
        mine = self._of_one_provider(S.META_SCHEDULED, S.SCHEDULED)
        ids = self._shuffled("refuseMany", [job.id for job in mine])
        return Call(mine[0].provider, GRID, "refuseMany", (ids,))

    def start(self) -> Call:
        """Start a job with the published or our own call, at a time that may be skewed."""
        job = self._job(S.SCHEDULED)
        if self._random.random() < 0.4:
            said = self._random.choice([("", 0), ("slow disk", 0), ("", -2)])
            return Call(job.provider, GRID, "providerSetJobStatus", (job.id, S.RUNNING, 0, *said))
        return Call(job.provider, GRID, "setJobRunning", (job.id, self._started_at(job)))

    def start_many(self) -> Call:
        """Start all jobs of a provider."""
        mine = self._of_one_provider(S.SCHEDULED)
        starts = self._shuffled("setRunningMany", [(job.id, self._started_at(job)) for job in mine])
        return Call(mine[0].provider, GRID, "setRunningMany", (starts,))

    def settle(self) -> Call:
        """Settle a job with a bill in seconds."""
        job = self._job(S.RUNNING, S.RUNNING, S.RUNNING, S.SCHEDULED)
        wait = self._run()
        return Call(job.provider, GRID, "settleJob", self._settlement(job, wait), wait=wait)

    def settle_many(self) -> Call:
        """Settle all running jobs of a provider."""
        mine, wait = self._of_one_provider(S.RUNNING), self._run()
        settlements = self._shuffled("settleMany", [self._settlement(job, wait) for job in mine])
        return Call(mine[0].provider, GRID, "settleMany", (settlements,), wait=wait)

    def settle_by_minutes(self) -> Call:
        """Settle a job with the published call."""
        job, wait = self._job(S.RUNNING, S.RUNNING, S.SCHEDULED, S.META_SCHEDULED), self._run()
        _, status, seconds, exit_code, error, _ = self._settlement(job, wait)
        arguments = (job.id, status, seconds // 60, error, exit_code)
        return Call(job.provider, GRID, "providerSetJobStatus", arguments, wait=wait)

    # Calls of any account.

    def expire(self) -> Call:
        """Expire a job in the last second before its timeout, or in the first second after it."""
        return self._expiry(self._job(S.META_SCHEDULED, S.SCHEDULED, S.RUNNING))

    def expire_cancelled(self) -> Call:
        """Expire a running job with a request to cancel, at one of these times."""
        cancelled = [job for job in self._jobs(S.RUNNING) if job.cancel_requested]
        return self._expiry(self._choice(cancelled))

    def _expiry(self, job: Job) -> Call:
        last = steps.expiry(self._model, job)
        late = self._random.randint(0, 1)
        call = Call(self._random_calls.account(), GRID, "expireJob", (job.id,))
        if job.state is not S.META_SCHEDULED:
            return replace(call, wait=max(0, last + late - self._model.now))
        blocks = last + late - self._model.block
        if blocks > 40:
            raise NothingToDo
        return replace(call, blocks=max(1, blocks))

    # Selection of jobs and providers.

    @property
    def _operator(self) -> str:
        return self._cast.operator.address

    def _choice(self, some: Sequence[T]) -> T:
        if not some:
            raise NothingToDo
        return self._random.choice(some)

    def _jobs(self, *states: JobState) -> list[Job]:
        selected: list[Job] = []
        for state in states:
            selected += [job for job in self._model.state.jobs.values() if job.state is state]
        return selected

    def _job(self, *states: JobState) -> Job:
        return self._choice(self._jobs(*states))

    def _of_one_provider(self, *states: JobState) -> list[Job]:
        provider = self._job(*states).provider
        return [job for job in self._jobs(*states) if job.provider == provider]

    def _free_provider(self) -> str:
        is_valid = partial(providers.is_valid_for_scheduling, self._model)
        return self._choice(list(filter(is_valid, self._cast.providers)))

    def _waiting(self, kind: Kind) -> str:
        """Return a provider with entries in a queue; sometimes any provider."""
        if self._random.random() >= 0.9:
            return self._choice(list(self._cast.providers))
        return self._choice(list(filter(partial(self._has_entries, kind), self._cast.providers)))

    def _has_entries(self, kind: Kind, provider: str) -> bool:
        return bool(self._model.state.queues.get((kind, provider), Queue()).waiting)

    # Arguments of calls.

    def _request_arguments(self, escrow: int) -> tuple:
        pool = BAD_DEFINITIONS if self._random.random() < 0.08 else (*DEFINITIONS[:3], *DEFINITIONS)
        definition = self._random.choice(pool)
        return definition, max(0, escrow), b"job".ljust(32, b"\0"), self._random.random() < 0.6

    def _limit(self, job: Job, provider: str) -> int:
        price = price_per_minute(job.resources, providers.standing(self._model, provider).prices)
        if self._random.random() >= 0.6:
            return MAX_UINT
        return max(0, price + self._random.choice([0, 0, 1, -1]))

    def _started_at(self, job: Job) -> int:
        now = self._model.now
        return self._random.choice(
            [now, job.claimed_at, (job.claimed_at + now) // 2, job.claimed_at - 50, now + 50, 0]
        )

    def _run(self) -> int:
        return self._random.choice([0, 1, 59, 61, 600, 3600, 86400])

    def _settlement(self, job: Job, wait: int) -> tuple[bytes, int, int, int, str, bytes]:
        elapsed = max(0, self._model.now + wait - job.started_at) if job.state is S.RUNNING else 0
        reports = [elapsed, elapsed, elapsed // 2, elapsed - 1, elapsed + 1, elapsed + 900, 0]
        seconds = min(max(0, self._random.choice(reports)), 2**64 - 1)
        status = self._random.choice(
            [S.FINISHED, *sorted(COLD), S.META_SCHEDULED, BEYOND_ALL_STATES]
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
        """Return the elements in a random order, sometimes with an invalid one."""
        if self._random.random() < 0.4:
            (extra,) = self._random_calls.arguments(GRID, function)
            elements = [*elements, *extra]
        self._random.shuffle(elements)
        return tuple(elements)
