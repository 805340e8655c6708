# SPDX-License-Identifier: Apache-2.0
"""Metrics of a service as OpenMetrics text. Labels have only a few possible values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from gridstead.errors import GridsteadError

CONTENT_TYPE = CONTENT_TYPE_LATEST

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge whose numbers are read at each scrape.

    Attributes:
        description: The description in the metrics, a full sentence.
        read: Returns the number of a gauge without a label. For a gauge with a label, returns a
            number for each value of the label.
        label: Name of the label. Empty if the gauge has no label.
    """

    description: str
    read: Callable[[], float | Mapping[str, float]]
    label: str = ""


class Metrics:
    """Counters of calls by outcome, and gauges.

    Args:
        gauges: The gauges by name.
    """

    def __init__(self, gauges: Mapping[str, Gauge]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Gauges(gauges))
        self._call_counter = Counter(
            "gridstead_calls",
            "Calls by name and outcome.",
            ("call", "outcome"),
            registry=self._registry,
        )
        self._seconds_counter = Counter(
            "gridstead_call_seconds", "Time that calls took.", ("call",), registry=self._registry
        )

    def counted(
        self, name: str, call: Callable[Parameters, Returned]
    ) -> Callable[Parameters, Returned]:
        """Return a wrapper that counts a function's calls by outcome: ok, an error code, or bug."""

        def call_and_count(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Returned:
            started_at = time.monotonic()
            outcome = "bug"
            try:
                returned = call(*arguments, **keywords)
                outcome = "ok"
            except GridsteadError as err:
                outcome = err.code
                raise
            finally:
                self._call_counter.labels(name, outcome).inc()
                self._seconds_counter.labels(name).inc(time.monotonic() - started_at)
            return returned

        return call_and_count

    def text(self) -> str:
        """Return all metrics as text.

        Raises:
            Transient: If the source of a gauge did not answer.
        """
        text: bytes = generate_latest(self._registry)  # type: ignore[no-untyped-call]
        return text.decode()


class _Gauges(Collector):
    def __init__(self, gauges: Mapping[str, Gauge]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, gauge in self._gauges.items():
            reading = gauge.read()
            if isinstance(reading, Mapping):
                family = GaugeMetricFamily(name, gauge.description, labels=[gauge.label])
                for label_value, number in reading.items():
                    family.add_metric([label_value], number)
                yield family
            else:
                yield GaugeMetricFamily(name, gauge.description, value=reading)
