# SPDX-License-Identifier: Apache-2.0
"""Compares the labels of a provider with the labels and conditions of a job.

The left side of a condition is the value of a label: ``compute.gflops > 1000`` requires a provider
whose label ``compute.gflops`` is greater than 1000. Two numbers are compared as numbers, other
values as text. The operator ``in`` requires that the value of the label contains the right side.

A number is a plain decimal such as ``-2.5`` (``domain/labels``). A value with an exponent,
a space or a plus sign is a text. Numbers are compared exactly.

Conditions with a reserved key are not about labels (``conditions.py``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any

from gridstead.domain.jobs.job import Affinity, Label
from gridstead.domain.labels.reserved import RESERVED_KEYS
from gridstead.domain.labels.values import number_or_none

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
    "!=": operator.ne,
}


def satisfies_all(
    labels: Iterable[Label], *, uses: Collection[Label], affinity: Collection[Affinity]
) -> bool:
    """Return whether a provider's labels include all labels in ``uses`` and meet all conditions.

    Labels with a reserved key are ignored.
    """
    if not uses and not affinity:
        return True
    values = values_by_key(labels)
    for required_label in uses:
        if values.get(required_label.key) != required_label.value:
            return False
    for condition in affinity:
        value = values.get(condition.key)
        if value is None or not satisfies(value, condition):
            return False
    return True


def values_by_key(labels: Iterable[Label]) -> dict[str, str]:
    """Return the values of labels without those that have a reserved key."""
    return {label.key: label.value for label in labels if label.key not in RESERVED_KEYS}


def satisfies(value: str, condition: Affinity) -> bool:
    """Return whether the value of a label satisfies a condition.

    An unknown operator means equality, as in DeepSquare's clients.
    """
    if condition.operator == "in":
        return condition.value in value
    compare: Callable[[Any, Any], bool] = _COMPARISONS.get(condition.operator, operator.eq)
    number, limit = number_or_none(value), number_or_none(condition.value)
    if number is not None and limit is not None:
        return compare(number, limit)
    return compare(value, condition.value)
