# SPDX-License-Identifier: Apache-2.0
"""The labels of the benchmarks that a provider offers, and when its registration waits for them."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from gridstead.domain.benchmarks.publication import labels_to_publish
from gridstead.domain.labels.keys import BENCHMARK_TIME
from gridstead.ports import Clock
from gridstead.ports.benchmarks import BenchmarkRuns

log = structlog.get_logger()


class MeasuredLabels:
    """Selects the labels of the benchmarks for the next registration.

    Args:
        runs: The runs of the benchmarks.
        clock: Wall time.
        wait_s: How long the first registration waits for the first report, in seconds from the
            first call of ``are_awaited``.
    """

    def __init__(self, runs: BenchmarkRuns, clock: Clock, *, wait_s: int = 0) -> None:
        self._runs = runs
        self._clock = clock
        self._wait_s = wait_s
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

    def to_offer(self, published: Mapping[str, str], *, at: int) -> Mapping[str, str]:
        """Return the labels to offer: those of the last runs, or the published ones.

        Args:
            published: The values of the published labels of the benchmarks, by their keys.
            at: The time of the newest block, in Unix seconds.
        """
        labels = labels_to_publish(
            published,
            [run.labels for run in self._runs.last_runs()],
            published_at=int(published.get(BENCHMARK_TIME, 0)),
            now=at,
        )
        return published if labels is None else labels
