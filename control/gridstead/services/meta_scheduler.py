# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler: matches pending jobs to providers.

The chain is its only memory. It reads all events from the first block at each start: who asked, who refused.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping

import structlog

from gridstead.domain.calls import Match
from gridstead.domain.events import Event, EventKind
from gridstead.domain.ids import is_batch_location_hash
from gridstead.domain.job import Block, Job, Provider
from gridstead.domain.lifecycle import COLD, JobState
from gridstead.domain.matching import Choice, choose
from gridstead.errors import GridsteadError
from gridstead.ports import Ledger, Outbox
from gridstead.services.follower import Follower

log = structlog.get_logger()


class MetaScheduler:
    """Matches each pending job to the first eligible provider."""

    def __init__(self, ledger: Ledger, follower: Follower, outbox: Outbox) -> None:
        self._ledger = ledger
        self._follower = follower
        self._outbox = outbox
        self._hot: set[int] = set()
        # By number and customer: after a reorg the number may be somebody else's job.
        self._refused_by: dict[tuple[int, str], set[str]] = defaultdict(set)
        self._providers: set[str] = set()
        self._view_lock = threading.Lock()
        self._states: dict[int, JobState] = {}
        self._reasons: dict[int, str] = {}

    def tick(self) -> None:
        """Match what can be matched; the rest stays pending, with a reason in the view."""
        self._follower.tick(self._remember)
        if not self._hot:
            self._show({}, {})
            return
        head = self._ledger.head()
        jobs = self._ledger.jobs(sorted(self._hot), at=head)
        self._hot = {number for number in self._hot if number not in jobs or jobs[number].state not in COLD}
        reasons = self._match([job for job in jobs.values() if job.state is JobState.PENDING], head)
        self._show({n: j.state for n, j in jobs.items() if j.state not in COLD}, reasons)

    def matched(self) -> Mapping[str, str]:
        """Return the matched and running jobs: 0x and 64 hexadecimal digits to the state's name."""
        with self._view_lock:
            return {f"0x{n:064x}": s.name for n, s in self._states.items() if s is not JobState.PENDING}

    def pending(self) -> Mapping[str, str]:
        """Return the pending jobs: 0x and 64 hexadecimal digits to why nobody has them yet."""
        with self._view_lock:
            pending = (n for n, s in self._states.items() if s is JobState.PENDING)
            return {f"0x{n:064x}": self._reasons.get(n, "being matched") for n in pending}

    def _remember(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.kind is EventKind.PROVIDER_CHANGED:
                self._providers.add(event.provider)
            elif event.job_number is not None:
                self._hot.add(event.job_number)
            if event.kind is EventKind.JOB_REFUSED and event.job_number is not None:
                self._refused_by[event.job_number, event.customer].add(event.provider)

    def _match(self, pending: list[Job], head: Block) -> dict[int, str]:
        reasons: dict[int, str] = {}
        if not pending:
            return reasons
        providers = self._ledger.providers(sorted(self._providers), at=head)
        for job in pending:
            number = job.id.number
            try:
                choice = self._choose(job, providers.values())
                if choice.provider is not None:
                    self._put(job, choice.provider, choice.price_per_min)
                    continue
            except GridsteadError as error:
                choice = Choice(provider=None, reason=str(error))
            reasons[number] = choice.reason
            if self._reasons.get(number) != choice.reason:
                log.info("job_unmatched", job_id=number, reason=choice.reason)
        return reasons

    def _put(self, job: Job, provider: str, price: int) -> None:
        """Ask for the match at no more than the price that the provider was chosen for."""
        call = Match(proof=job.proof, provider=provider, max_price_per_min=price)
        self._outbox.put(f"match:{job.proof}", call)

    def _choose(self, job: Job, providers: Iterable[Provider]) -> Choice:
        """Return who gets the job; without a script's id no provider could ever run it."""
        if not is_batch_location_hash(job.batch_location_hash):
            return Choice(provider=None, reason="the id of its script is malformed")
        return choose(job, providers, refused_by=self._refused_by.get((job.id.number, job.customer), ()))

    def _show(self, states: dict[int, JobState], reasons: dict[int, str]) -> None:
        with self._view_lock:
            self._states, self._reasons = states, reasons
