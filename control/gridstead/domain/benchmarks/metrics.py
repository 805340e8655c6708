# SPDX-License-Identifier: Apache-2.0
"""What is measured, and how much repeated measurements of it differ."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

PERCENT = 100


class Kind(Enum):
    """A kind of metrics. Its values are a tolerance and a margin, both in percent.

    The tolerance is the change that a published label ignores. The margin is how much slower than
    the others a node of a small class must be to count as slow.
    """

    COMPUTE = ("compute", 5, 10)
    NETWORK = ("network", 15, 15)
    STORAGE = ("storage", 25, 25)

    def __init__(self, prefix: str, tolerance_percent: int, margin_percent: int) -> None:
        self.prefix = prefix
        self.tolerance_percent = tolerance_percent
        self.margin_percent = margin_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What is measured on each node.

    Attributes:
        name: The name of the metric, for people.
        unit: The unit of its values.
        kind: How much its values vary.
        is_time: Whether a higher value is slower, as for a latency.
    """

    name: str
    unit: str
    kind: Kind
    is_time: bool = False

    def percent_slower(self, value: Decimal, reference: Decimal) -> Decimal:
        """Return how much slower a value is than a reference, in percent of the reference.

        Args:
            value: More than 0.
            reference: More than 0.
        """
        difference = value - reference if self.is_time else reference - value
        return difference * PERCENT / reference

    def best(self, *values: Decimal) -> Decimal:
        """Return the fastest of at least one value."""
        return min(values) if self.is_time else max(values)


def kind_of_key(key: str) -> Kind | None:
    """Return the kind of the label with this key, or None if the label is not a metric."""
    for kind in Kind:
        if key.startswith(f"{kind.prefix}."):
            return kind
    return None
