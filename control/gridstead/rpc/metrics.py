# SPDX-License-Identifier: Apache-2.0
"""What a service counts, as OpenMetrics text.

Source: the OpenMetrics specification 1.0; names are fixed, labels come from closed sets.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from gridstead.errors import GridsteadError

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

P = ParamSpec("P")
T = TypeVar("T")


class Metrics:
    """Counters of calls by outcome, and gauges that are read when they are asked for.

    Args:
        gauges: By name: what it tells, and what returns its value, or its values by their labels, such as
            ``repository="software.example.org"``.
    """

    def __init__(self, gauges: Mapping[str, tuple[str, Callable[[], float | Mapping[str, float]]]]) -> None:
        self._gauges = gauges
        self._calls: Counter[tuple[str, str]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._lock = threading.Lock()

    def counted(self, name: str, call: Callable[P, T]) -> Callable[P, T]:
        """Return the call, with its outcomes counted: ok, the code of an error of ours, or bug."""

        def counted(*arguments: P.args, **named: P.kwargs) -> T:
            started = time.monotonic()
            outcome = "bug"
            try:
                answer = call(*arguments, **named)
                outcome = "ok"
            except GridsteadError as err:
                outcome = err.code
                raise
            finally:
                with self._lock:
                    self._calls[name, outcome] += 1
                    self._seconds[name] += time.monotonic() - started  # type: ignore[assignment] # any number counts
            return answer

        return counted

    def text(self) -> str:
        """Return all of it.

        Raises:
            Transient: What a gauge asks did not answer.
        """
        gauges = {name: (about, value()) for name, (about, value) in self._gauges.items()}
        with self._lock:
            calls, seconds = sorted(self._calls.items()), sorted(self._seconds.items())
        lines = ["# TYPE gridstead_calls counter", "# HELP gridstead_calls Calls by name and outcome."]
        lines += [f'gridstead_calls_total{{call="{name}",outcome="{how}"}} {count}' for (name, how), count in calls]
        lines += ["# TYPE gridstead_call_seconds counter", "# HELP gridstead_call_seconds Time that calls took."]
        lines += [f'gridstead_call_seconds_total{{call="{name}"}} {value:.6f}' for name, value in seconds]
        for name, (about, value) in gauges.items():
            lines += [f"# TYPE {name} gauge", f"# HELP {name} {about}"]
            values = value if isinstance(value, Mapping) else {"": value}
            lines += [f"{name}{{{labels}}} {one}" if labels else f"{name} {one}" for labels, one in values.items()]
        return "\n".join([*lines, "# EOF", ""])
