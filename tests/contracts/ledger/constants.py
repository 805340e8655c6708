# SPDX-License-Identifier: Apache-2.0
"""The model of contract Constants: numbers that the owner may change within bounds."""

from __future__ import annotations

from tests.contracts.ledger.access import require_owner
from tests.contracts.ledger.model import ContractModel, require

DAY = 86400
TEN_YEARS_MIN = 10 * 365 * 24 * 60

DEFAULTS = {
    "minimumAmount": 100 * 10**18,
    "cancellationFeeMinute": 5,
    "billDurationDeltaMinute": 15,
    "claimJobTimeout": 10,
    "topUpSliceDurationMin": 30,
    "deepsquareCut": 20,
    "startTimeout": 7 * DAY,
    "settleGrace": 7 * DAY,
}

BOUNDS = {
    "minimumAmount": (1, 2**128 - 1),
    "cancellationFeeMinute": (0, TEN_YEARS_MIN),
    "billDurationDeltaMinute": (0, TEN_YEARS_MIN),
    "claimJobTimeout": (1, 10**6),
    "topUpSliceDurationMin": (1, TEN_YEARS_MIN),
    "deepsquareCut": (0, 100),
    "startTimeout": (4 * DAY, 90 * DAY),
    "settleGrace": (4 * DAY, 30 * DAY),
}


def setter(name: str) -> str:
    """Return the name of the function that sets a constant."""
    return f"set{name[0].upper()}{name[1:]}"


def set_constant(model: ContractModel, value: int, *, name: str) -> None:
    """Set a constant."""
    require_owner(model, "Constants")
    minimum, maximum = BOUNDS[name]
    require(minimum <= value <= maximum, "Constants: value out of bounds")
    model.state.constants[name] = value
    model.emit("Constants", "ConstantChanged", name, value)
