# SPDX-License-Identifier: Apache-2.0
"""How far a site is from its inventory, as a file that node_exporter's textfile collector reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from gridstead.errors import ConfigError


class DriftMetricsFile:
    """Implements port ``DriftMetrics``. A reader finds the former text or the new one, whole.

    Args:
        path: The file, named ``*.prom``; its folder is there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def publish(self, tasks: Mapping[str, int] | None, *, checked_at: int) -> None:
        """Replace the file."""
        registry = CollectorRegistry()
        _gauge(registry, "check_success", "Whether all hosts could be looked at").set(
            tasks is not None
        )
        _gauge(registry, "check_timestamp_seconds", "When the site was looked at").set(checked_at)
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


def _gauge(registry: CollectorRegistry, name: str, says: str, *labels: str) -> Gauge:
    return Gauge(f"gridstead_drift_{name}", says, labels, registry=registry)
