# SPDX-License-Identifier: Apache-2.0
"""Writes the drift metrics to a file for the textfile collector of node_exporter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from gridstead.errors import ConfigError


class DriftMetricsFile:
    """Implements port ``DriftMetrics``. The file is replaced atomically.

    Args:
        path: The file. Its name must end in ``.prom``, and its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def publish(self, task_counts: Mapping[str, int] | None, *, checked_at: int) -> None:
        """Write the file."""
        registry = CollectorRegistry()
        success = _gauge(registry, "check_success", "Whether all hosts could be checked")
        success.set(task_counts is not None)
        timestamp = _gauge(registry, "check_timestamp_seconds", "When the site was checked")
        timestamp.set(checked_at)
        if task_counts is not None:
            tasks = _gauge(
                registry,
                "tasks",
                "Tasks of site.yml that would change something on the host",
                "host",
            )
            for host, count in task_counts.items():
                tasks.labels(host).set(count)
        try:
            write_to_textfile(str(self._path), registry)
        except OSError as error:
            raise ConfigError(f"could not write {self._path}", detail=error.strerror) from error


def _gauge(registry: CollectorRegistry, name: str, description: str, *labels: str) -> Gauge:
    return Gauge(f"gridstead_drift_{name}", description, labels, registry=registry)
