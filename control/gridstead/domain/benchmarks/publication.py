# SPDX-License-Identifier: Apache-2.0
"""Decides when the labels from benchmarks are published again.

Each change of labels is a registration, which costs gas and needs an approval. So small changes and
changes that one run shows alone are not published.

Rule 1: a provider without published labels publishes its first run.
Rule 2: later, the labels change if the last two runs agree about a label, and differ from its
    published value. Two numbers differ if they are further apart than the tolerance of their kind,
    in percent of the older number. Other values differ if they are not equal.
Rule 3: labels change at most once a week.
Rule 4: the labels about the benchmark itself do not cause a change, except that the labels change
    after 60 days. Clients do not trust the values after 90 days (``trust.py``).
Rule 5: when the labels change, each label about which the last two runs agree gets its value in the
    last run, which the published report contains. The other labels keep their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gridstead.domain.benchmarks.metrics import PERCENT, kind_of_key
from gridstead.domain.labels.keys import BENCHMARK_KEYS, BENCHMARK_TIME
from gridstead.domain.labels.values import number_or_none

MIN_INTERVAL_S = 7 * 24 * 3600
RENEWAL_S = 60 * 24 * 3600
_ABOUT_BENCHMARK = frozenset(standard.key for standard in BENCHMARK_KEYS)

# The values of labels by their keys.
Values = Mapping[str, str]


def labels_to_publish(
    published: Values, runs: Sequence[Values], *, published_at: int, now: int
) -> Values | None:
    """Return the labels that a provider must publish now, or None for no change.

    Args:
        published: The labels from benchmarks that are published. Empty if there are none.
        runs: The labels of each complete run, the oldest first.
        published_at: When the published labels were measured, Unix seconds.
        now: Unix seconds.

    Returns:
        All labels from benchmarks.
    """
    if not runs:
        return None
    if not published:
        return runs[-1]
    if len(runs) == 1 or now - published_at < MIN_INTERVAL_S:
        return None
    earlier_run, last_run = runs[-2:]
    last_time = int(last_run.get(BENCHMARK_TIME, published_at))
    is_changed = last_time - published_at >= RENEWAL_S
    values: dict[str, str | None] = {}
    for key in sorted({*published, *last_run} - _ABOUT_BENCHMARK):
        old, earlier, last = published.get(key), earlier_run.get(key), last_run.get(key)
        is_confirmed = not differ(key, earlier, last)
        is_changed = is_changed or (is_confirmed and differ(key, old, last))
        values[key] = last if is_confirmed else old
    if not is_changed:
        return None
    about_benchmark = {key: last_run[key] for key in last_run if key in _ABOUT_BENCHMARK}
    labels = {key: value for key, value in values.items() if value is not None}
    return {**labels, **about_benchmark}


def differ(key: str, old: str | None, new: str | None) -> bool:
    """Return whether two values of a label differ by more than its tolerance.

    Args:
        key: The key of the label.
        old: The older value. None if there is no label.
        new: The newer value. None if there is no label.
    """
    kind = kind_of_key(key)
    old_number = None if old is None else number_or_none(old)
    new_number = None if new is None else number_or_none(new)
    if kind is None or old_number is None or new_number is None:
        return old != new
    return abs(new_number - old_number) * PERCENT > kind.tolerance_percent * abs(old_number)
