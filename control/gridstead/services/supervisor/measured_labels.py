# SPDX-License-Identifier: Apache-2.0
"""The labels of the benchmarks that a provider offers, and when its registration waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from gridstead.domain.benchmarks.publication import labels_to_publish
from gridstead.domain.jobs.job import Provider
from gridstead.domain.labels.keys import BENCHMARK_TIME, provider_labels
from gridstead.domain.supervisor.offers import Terms, without_own_labels, without_report
from gridstead.ports import Clock
from gridstead.ports.benchmarks import BenchmarkRuns
from gridstead.services.supervisor.report_publisher import ReportPublisher

log = structlog.get_logger()


class MeasuredLabels:
    """Selects the labels of the benchmarks for the next registration.

    Args:
        runs: The runs of the benchmarks.
        clock: Wall time.
        wait_s: How long the first registration waits for the first report, in seconds from the
            first call of ``are_awaited``.
        publisher: Publishes the report of the run. None if the provider publishes no reports.
    """

    def __init__(
        self,
        runs: BenchmarkRuns,
        clock: Clock,
        *,
        wait_s: int = 0,
        publisher: ReportPublisher | None = None,
    ) -> None:
        self._runs = runs
        self._clock = clock
        self._wait_s = wait_s
        self._publisher = publisher
        self._waiting_since: int | None = None

    def are_awaited(self) -> bool:
        """Return whether a provider without a record on the chain waits for the first report."""
        if self._wait_s == 0 or self._runs.last_runs():
            return False
        now = self._clock.now()
        if self._waiting_since is None:
            self._waiting_since = now
            log.info("registration_waits_for_benchmarks", wait_s=self._wait_s)
        return now < self._waiting_since + self._wait_s

    def to_offer(
        self, published: Mapping[str, str], terms: Terms, *, active: Provider | None, now: int
    ) -> Mapping[str, str]:
        """Return the labels to offer: those of the last runs, or the published ones.

        Args:
            published: The labels of the benchmarks in the newest record, by their keys. Labels
                that the operator has with the same values are left out, in the runs too.
            terms: The operator's labels.
            active: The record that was approved last. None if there is none.
            now: The time of the newest block, in Unix seconds.
        """
        runs = [without_own_labels(run.labels, terms) for run in self._runs.last_runs()]
        published = _without_replaced_labels(published, runs, terms)
        labels = labels_to_publish(
            published,
            runs,
            published_at=int(published.get(BENCHMARK_TIME, 0)),
            now=now,
        )
        measured = without_report(published if labels is None else labels)
        if self._publisher is None:
            return measured
        return measured | self._publisher.labels(measured, published=published, active=active)


def _without_replaced_labels(
    published: Mapping[str, str], runs: Sequence[Mapping[str, str]], terms: Terms
) -> Mapping[str, str]:
    """Return the published labels without those that only the operator can have set.

    The operator has a label with the same key, and no run measured it.
    """
    if not runs:
        return published
    measured_keys = set().union(*runs)
    own_keys = {label.key for label in provider_labels(terms.labels)}
    replaced_keys = own_keys - measured_keys
    return {key: value for key, value in published.items() if key not in replaced_keys}
