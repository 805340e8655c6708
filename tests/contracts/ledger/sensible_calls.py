# SPDX-License-Identifier: Apache-2.0
"""Calls that make sense where things stand, so that jobs live, most to their end: what actors of a
grid do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from tests.contracts.ledger import providers, steps
from tests.contracts.ledger.calls import Call
from tests.contracts.ledger.model import MAX_UINT, ContractModel
from tests.contracts.ledger.random_calls import BAD_DEFINITIONS, DEFINITIONS, TEXTS, RandomCalls
from tests.contracts.ledger.setup import Cast
from tests.contracts.ledger.state import Job, Kind, Queue
from tests.devnet import COIN

from gridstead.domain.billing import price_per_minute
from gridstead.domain.lifecycle import COLD, HOT, JobState

GRID = "MetaScheduler"
BEYOND_ALL_STATES = 9
S = JobState
T = TypeVar("T")


class NothingToDo(Exception):
    """A play needs something that there is not now."""


class SensibleCalls:
    """Draws calls.

    Args:
        random: Where chance comes from.
        world: The model.
        cast: Who plays.
        wild: Where a bad element of a batch comes from.
    """

    def __init__(
        self, random: Random, model: ContractModel, cast: Cast, random_calls: RandomCalls
    ) -> None:
        self._random = random
        self._world = model
        self._cast = cast
        self._wild = random_calls

    # Customers.

    def request(self) -> Call:
        """Ask for a job."""
        customer = self._random.choice((self._cast.rich.address,) * 4 + (self._cast.poor.address,))
        least = self._world.state.constants["minimumAmount"]
        lock = least + self._random.choice(
            [0, 0, 0, 1, 50 * COIN, 50 * COIN, 900 * COIN, 900 * COIN, -1]
        )
        return Call(customer, GRID, "requestNewJob", self._asked(lock))

    def request_with_permit(self) -> Call:
        """Ask for a job with a signed allowance, which now and then is of no use."""
        customer = self._random.choice(self._cast.customers)
        lock = self._world.state.constants["minimumAmount"] + self._random.choice([0, 33])
        permission = self._wild.permission(lock, customer)
        return Call(customer, GRID, "requestNewJobWithPermit", (*self._asked(lock), *permission))

    def cancel(self) -> Call:
        """Cancel a job."""
        return self._cancellation(self._job(S.PENDING, S.META_SCHEDULED, S.SCHEDULED))

    def cancel_run(self) -> Call:
        """Ask for the end of a run."""
        return self._cancellation(self._job(S.RUNNING))

    def _cancellation(self, job: Job) -> Call:
        return Call(job.customer, GRID, "cancelJob", (job.id,))

    def top_up(self) -> Call:
        """Prolong a job, by fractions of a minute and of a wei's price too."""
        job = self._job(S.SCHEDULED, S.RUNNING)
        amount = self._random.choice([0, 1, job.price - 1, job.price, 3 * job.price + 1, 50 * COIN])
        payer = self._random.choice([job.customer, self._cast.rich.address])
        return Call(payer, GRID, "topUpJob", (job.id, max(0, amount)))

    def top_up_delegate(self) -> Call:
        """Prolong a job with the customer's credits, some time after it ran out of paid time too."""
        some = self._jobs(*S) if self._random.random() < 0.1 else self._jobs(S.SCHEDULED, S.RUNNING)
        able = [job for job in some if job.delegates or self._random.random() < 0.2]
        job = self._choice(able)
        sender = self._random.choice([job.customer, job.provider, self._cast.operator.address])
        known = [one.address for one in self._cast.wallets]
        sender = sender if sender in known else job.customer
        wait = self._random.choice([0, 1500, 3000, 60 * 200])
        return Call(sender, GRID, "topUpJobDelegate", (job.id,), wait=wait)

    def delegate(self) -> Call:
        """Say who may prolong a job."""
        job = self._job(*S)
        return Call(
            job.customer,
            GRID,
            "setDelegateSpendingAuthority",
            (job.id, self._random.random() < 0.8),
        )

    # The matching service.

    def match(self) -> Call:
        """Match a job, in the old way."""
        return Call(
            self._operator, GRID, "metaSchedule", (self._job(S.PENDING).id, self._free_provider())
        )

    def match_at_most(self) -> Call:
        """Match a job, at a limit near its price."""
        job, provider = self._job(S.PENDING), self._free_provider()
        return Call(
            self._operator,
            GRID,
            "metaScheduleAtMost",
            (job.id, provider, self._limit(job, provider)),
        )

    def match_many(self) -> Call:
        """Match all jobs that wait, most of them well."""
        pending = self._jobs(S.PENDING)
        provider = self._free_provider()
        matches = [(job.id, provider, self._limit(job, provider)) for job in pending]
        return Call(
            self._operator, GRID, "metaScheduleMany", (self._spoiled("metaScheduleMany", matches),)
        )

    def time_out(self) -> Call:
        """Take a job from a provider."""
        return Call(self._operator, GRID, "timeoutJob", (self._job(*sorted(HOT)).id,))

    def panic(self) -> Call:
        """End a job for the grid's own reasons."""
        job = self._job(*sorted(HOT))
        return Call(self._operator, GRID, "panicJob", (job.id, self._random.choice(TEXTS)))

    # Providers.

    def claim(self) -> Call:
        """Claim one job."""
        return Call(self._waiting(Kind.CLAIMABLE), GRID, "claimNextJob")

    def claim_many(self) -> Call:
        """Claim some jobs."""
        return Call(
            self._waiting(Kind.CLAIMABLE),
            GRID,
            "claimJobs",
            (self._random.choice([0, 1, 2, 50, MAX_UINT]),),
        )

    def take_other(self) -> Call:
        """Take a cancellation or a top-up, one or several."""
        waiting = {kind for (kind, _), queue in self._world.state.queues.items() if queue.waiting}
        kind = self._choice(sorted(waiting - {Kind.CLAIMABLE}))
        one, many = {
            Kind.CANCELLING: ("claimNextCancellingJob", "claimCancellations"),
            Kind.TOP_UP: ("claimNextTopUpJob", "claimTopUps"),
        }[kind]
        if self._random.random() < 0.5:
            return Call(self._waiting(kind), GRID, one)
        return Call(self._waiting(kind), GRID, many, (self._random.choice([1, 3, 50]),))

    def refuse(self) -> Call:
        """Give a job back."""
        job = self._job(S.META_SCHEDULED, S.SCHEDULED, S.RUNNING)
        return Call(job.provider, GRID, "refuseJob", (job.id,))

    def refuse_many(self) -> Call:
        """Give all jobs of a provider back."""
        mine = self._of_one_provider(S.META_SCHEDULED, S.SCHEDULED)
        ids = self._spoiled("refuseMany", [job.id for job in mine])
        return Call(mine[0].provider, GRID, "refuseMany", (ids,))

    def start(self) -> Call:
        """Start a job, by the old or the added call, at a time that may be skewed."""
        job = self._job(S.SCHEDULED)
        if self._random.random() < 0.4:
            said = self._random.choice([("", 0), ("slow disk", 0), ("", -2)])
            return Call(job.provider, GRID, "providerSetJobStatus", (job.id, S.RUNNING, 0, *said))
        return Call(job.provider, GRID, "setJobRunning", (job.id, self._started_at(job)))

    def start_many(self) -> Call:
        """Start all jobs of a provider."""
        mine = self._of_one_provider(S.SCHEDULED)
        starts = self._spoiled("setRunningMany", [(job.id, self._started_at(job)) for job in mine])
        return Call(mine[0].provider, GRID, "setRunningMany", (starts,))

    def settle(self) -> Call:
        """End a job with a bill by the second."""
        job = self._job(S.RUNNING, S.RUNNING, S.RUNNING, S.SCHEDULED)
        wait = self._run()
        return Call(job.provider, GRID, "settleJob", self._settlement(job, wait), wait=wait)

    def settle_many(self) -> Call:
        """End all running jobs of a provider."""
        mine, wait = self._of_one_provider(S.RUNNING), self._run()
        settlements = self._spoiled("settleMany", [self._settlement(job, wait) for job in mine])
        return Call(mine[0].provider, GRID, "settleMany", (settlements,), wait=wait)

    def settle_by_minutes(self) -> Call:
        """End a job by the old call."""
        job, wait = self._job(S.RUNNING, S.RUNNING, S.SCHEDULED, S.META_SCHEDULED), self._run()
        _, status, seconds, exit_code, error, _ = self._settlement(job, wait)
        arguments = (job.id, status, seconds // 60, error, exit_code)
        return Call(job.provider, GRID, "providerSetJobStatus", arguments, wait=wait)

    # Anyone.

    def expire(self) -> Call:
        """Expire a job at the last moment at which it is refused, or at the first at which it is
        not.
        """
        return self._expiry(self._job(S.META_SCHEDULED, S.SCHEDULED, S.RUNNING))

    def expire_cancelled(self) -> Call:
        """Expire a run that its customer wants to end, at one of these moments."""
        return self._expiry(
            self._choice([job for job in self._jobs(S.RUNNING) if job.cancel_requested])
        )

    def _expiry(self, job: Job) -> Call:
        last = steps.expiry(self._world, job)
        late = self._random.randint(0, 1)
        call = Call(self._wild.account(), GRID, "expireJob", (job.id,))
        if job.state is not S.META_SCHEDULED:
            return replace(call, wait=max(0, last + late - self._world.now))
        blocks = last + late - self._world.block
        if blocks > 40:
            raise NothingToDo
        return replace(call, blocks=max(1, blocks))

    # Where things stand.

    @property
    def _operator(self) -> str:
        return self._cast.operator.address

    def _choice(self, some: Sequence[T]) -> T:
        if not some:
            raise NothingToDo
        return self._random.choice(some)

    def _jobs(self, *states: JobState) -> list[Job]:
        return [
            job for state in states for job in self._world.state.jobs.values() if job.state is state
        ]

    def _job(self, *states: JobState) -> Job:
        return self._choice(self._jobs(*states))

    def _of_one_provider(self, *states: JobState) -> list[Job]:
        provider = self._job(*states).provider
        return [job for job in self._jobs(*states) if job.provider == provider]

    def _free_provider(self) -> str:
        able = [
            one
            for one in self._cast.providers
            if providers.is_valid_for_scheduling(self._world, one)
        ]
        return self._choice(able)

    def _waiting(self, kind: Kind) -> str:
        """Return a provider with something in a queue, stale or not; now and then any."""
        queues = self._world.state.queues
        able = [one for one in self._cast.providers if queues.get((kind, one), Queue()).waiting]
        return self._choice(able if self._random.random() < 0.9 else list(self._cast.providers))

    # What they say.

    def _asked(self, lock: int) -> tuple:
        pool = BAD_DEFINITIONS if self._random.random() < 0.08 else (*DEFINITIONS[:3], *DEFINITIONS)
        definition = self._random.choice(pool)
        return definition, max(0, lock), b"job".ljust(32, b"\0"), self._random.random() < 0.6

    def _limit(self, job: Job, provider: str) -> int:
        price = price_per_minute(job.resources, providers.standing(self._world, provider).prices)
        return (
            max(0, price + self._random.choice([0, 0, 1, -1]))
            if self._random.random() < 0.6
            else MAX_UINT
        )

    def _started_at(self, job: Job) -> int:
        now = self._world.now
        return self._random.choice(
            [now, job.claimed_at, (job.claimed_at + now) // 2, job.claimed_at - 50, now + 50, 0]
        )

    def _run(self) -> int:
        return self._random.choice([0, 1, 59, 61, 600, 3600, 86400])

    def _settlement(self, job: Job, wait: int) -> tuple[bytes, int, int, int, str, bytes]:
        elapsed = max(0, self._world.now + wait - job.started_at) if job.state is S.RUNNING else 0
        told = [elapsed, elapsed, elapsed // 2, elapsed - 1, elapsed + 1, elapsed + 900, 0]
        seconds = min(max(0, self._random.choice(told)), 2**64 - 1)
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

    def _spoiled(self, function: str, elements: list) -> tuple:
        """Return the elements in any order, now and then with one among them that nobody would
        send.
        """
        if self._random.random() < 0.4:
            (extra,) = self._wild.arguments(GRID, function)
            elements = [*elements, *extra]
        self._random.shuffle(elements)
        return tuple(elements)
