# SPDX-License-Identifier: Apache-2.0
"""Drift of a site from its inventory, as a file for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from gridstead.errors import ConfigError


class DriftMetricsFile:
    """Implements port ``DriftMetrics``. The file is replaced atomically.

    Args:
        path: The file, named ``*.prom``, in an existing folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def publish(self, tasks: Mapping[str, int] | None, *, checked_at: int) -> None:
        """Write the file."""
        registry = CollectorRegistry()
        _gauge(registry, "check_success", "Whether all hosts could be checked").set(
            tasks is not None
        )
        _gauge(registry, "check_timestamp_seconds", "When the site was checked").set(checked_at)
        if tasks is not None:
            counts = _gauge(
                registry,
                "tasks",
                "Tasks of site.yml that would change something on the host",
                "host",
            )
            for host, count in tasks.items():
                counts.labels(host).set(count)
        try:
            write_to_textfile(str(self._path), registry)
        except OSError as err:
            raise ConfigError(f"could not write {self._path}", detail=err.strerror) from err


def _gauge(registry: CollectorRegistry, name: str, description: str, *labels: str) -> Gauge:
    return Gauge(f"gridstead_drift_{name}", description, labels, registry=registry)
