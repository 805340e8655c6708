# SPDX-License-Identifier: Apache-2.0
"""How old the benchmarks of a provider are, from its label ``benchmark.time``."""

from __future__ import annotations

from collections.abc import Iterable

from gridstead.domain.jobs.job import Label
from gridstead.domain.labels.keys import BENCHMARK_TIME, is_in_form

# A provider's clock may be ahead of that of the chain by so much. A later time is no valid value.
MAX_AHEAD_S = 3600


def benchmark_time(labels: Iterable[Label]) -> int | None:
    """Return when the benchmarks of a provider ended, Unix seconds.

    Returns None if there is no such label, or if its value is not an integer of at least 0.
    """
    for label in labels:
        if label.key == BENCHMARK_TIME and is_in_form(label.key, label.value):
            return int(label.value)
    return None


def age_s(measured_at: int | None, *, now: int) -> int | None:
    """Return the age of benchmarks, in seconds.

    A time that is at most an hour in the future has the age 0.

    Args:
        measured_at: When the benchmarks ended, Unix seconds. None if this is unknown.
        now: Unix seconds.

    Returns:
        None if the time is unknown, or further in the future.
    """
    if measured_at is None or measured_at - now > MAX_AHEAD_S:
        return None
    return max(0, now - measured_at)
