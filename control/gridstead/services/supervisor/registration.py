# SPDX-License-Identifier: Apache-2.0
"""Registers a provider again when its hardware, prices or labels change.

The labels are those of the operator and those that the benchmarks measured. Each registration needs
an approval, so the labels of the benchmarks change rarely (``domain/benchmarks/publication.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from gridstead.domain.benchmarks.publication import labels_to_publish
from gridstead.domain.jobs.job import Block, Provider
from gridstead.domain.labels.keys import BENCHMARK_TIME
from gridstead.domain.supervisor.offers import Terms, measured_labels, must_register, offer
from gridstead.domain.transactions.calls import outbox_key
from gridstead.ports import Clock, Ledger, Outbox, Scheduler
from gridstead.ports.benchmarks import BenchmarkRuns

log = structlog.get_logger()


class Registration:
    """Registers one provider if its records on the chain differ from its current offer.

    A provider has up to two records: an active one, and one that waits for approval.

    Args:
        ledger: The chain.
        outbox: The calls of the provider's wallet.
        scheduler: Slurm.
        benchmarks: The runs of the benchmarks. None if the site cannot read them.
        provider: The address of the provider.
        terms: The operator's prices and labels.
        clock: Wall time.
        benchmark_wait_s: How long the first registration waits for the first report of the
            benchmarks, in seconds from the first tick.
    """

    def __init__(
        self,
        ledger: Ledger,
        outbox: Outbox,
        scheduler: Scheduler,
        *,
        benchmarks: BenchmarkRuns | None = None,
        provider: str,
        terms: Terms,
        clock: Clock,
        benchmark_wait_s: int = 0,
    ) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._scheduler = scheduler
        self._benchmarks = benchmarks
        self._provider = provider
        self._terms = terms
        self._clock = clock
        self._benchmark_wait_s = benchmark_wait_s
        self._waiting_since: int | None = None

    def tick(self) -> None:
        """Request a registration if neither record equals the current offer.

        Later, an administrator of the grid approves the registration.
        """
        hardware = self._scheduler.hardware()
        head = self._ledger.head()
        active_provider = self._ledger.providers([self._provider], at_block=head).get(
            self._provider
        )
        waiting_provider = self._ledger.waiting_provider(self._provider, at_block=head)
        newest_record = waiting_provider or active_provider
        if newest_record is None and self._waits_for_benchmarks():
            return
        measured = self._measured_labels(newest_record, head)
        current_offer = offer(hardware, self._terms, measured)
        if must_register(current_offer, active_provider, waiting_provider):
            self._outbox.put(outbox_key(current_offer), current_offer)
            log.info("registration_requested", nodes=current_offer.hardware.node_count)

    def _waits_for_benchmarks(self) -> bool:
        """Return whether the first registration waits for the first report of the benchmarks."""
        if self._benchmarks is None or self._benchmarks.last_runs():
            return False
        now = self._clock.now()
        if self._waiting_since is None:
            self._waiting_since = now
            if self._benchmark_wait_s > 0:
                log.info("registration_waits_for_benchmarks", wait_s=self._benchmark_wait_s)
        return now < self._waiting_since + self._benchmark_wait_s

    def _measured_labels(self, record: Provider | None, head: Block) -> Mapping[str, str]:
        """Return the labels of the benchmarks that the provider offers now."""
        published = measured_labels(record, self._terms)
        if self._benchmarks is None:
            return published
        labels = labels_to_publish(
            published,
            [run.labels for run in self._benchmarks.last_runs()],
            published_at=int(published.get(BENCHMARK_TIME, 0)),
            now=head.timestamp,
        )
        return published if labels is None else labels
