# SPDX-License-Identifier: Apache-2.0
"""The numbers in the contract Constants that an administrator may set, with their bounds.

``administration.py`` decides which transactions set them.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from gridstead.errors import InvalidInput

MAX_MINUTES = 5_256_000  # ten years
DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A number that the owner of Constants may set. Both bounds are valid values.

    The bounds are copied from contracts/src/Constants.sol. Test
    tests/adapters/chain/test_administration.py compares the copies.
    """

    name: str
    unit: str
    minimum: int
    maximum: int
    meaning: str


CONSTANTS = (
    Constant(
        name="minimumAmount",
        unit="wei",
        minimum=1,
        maximum=2**128 - 1,
        meaning="minimum escrow of a new job",
    ),
    Constant(
        name="deepsquareCut",
        unit="percent",
        minimum=0,
        maximum=100,
        meaning="share of a job's cost that is the grid's fee",
    ),
    Constant(
        name="claimJobTimeout",
        unit="blocks",
        minimum=1,
        maximum=10**6,
        meaning="time after which a match expires if its provider has not claimed it",
    ),
    Constant(
        name="startTimeout",
        unit="s",
        minimum=4 * DAY_S,
        maximum=90 * DAY_S,
        meaning="time after which a claimed job expires if it has not started",
    ),
    Constant(
        name="settleGrace",
        unit="s",
        minimum=4 * DAY_S,
        maximum=30 * DAY_S,
        meaning=(
            "time after which a job expires if it is not settled, counted from the end of its paid"
            " time or from the request to cancel it"
        ),
    ),
    Constant(
        name="topUpSliceDurationMin",
        unit="min",
        minimum=1,
        maximum=MAX_MINUTES,
        meaning=(
            "run time that one top-up pays for, when the provider or the meta-scheduler tops up for"
            " the customer"
        ),
    ),
    Constant(
        name="billDurationDeltaMinute",
        unit="min",
        minimum=0,
        maximum=MAX_MINUTES,
        meaning="unused, retained for old clients",
    ),
    Constant(
        name="cancellationFeeMinute",
        unit="min",
        minimum=0,
        maximum=MAX_MINUTES,
        meaning="unused, retained for old clients",
    ),
)


def find_constant(text: str) -> Constant:
    """Return the constant with this name. Case, dashes and underscores are ignored.

    Raises:
        InvalidInput: If no constant has this name.
    """
    by_name = {constant.name.lower(): constant for constant in CONSTANTS}
    name = text.strip().replace("-", "").replace("_", "").lower()
    if name in by_name:
        return by_name[name]
    similar_names = difflib.get_close_matches(name, by_name, n=1)
    question = f"Did you mean {by_name[similar_names[0]].name}? " if similar_names else ""
    names = ", ".join(constant.name for constant in CONSTANTS)
    hint = f"{question}Specify one of: {names}."
    raise InvalidInput(f"invalid constant {text[:80]!r}", hint=hint)
