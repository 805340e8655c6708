# SPDX-License-Identifier: Apache-2.0
"""The types of values in scenario files."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from gridstead.config.values import check_labels

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_MAX_DURATION_S = 10 * 365 * 86_400
MAX_MEMORY_MB = 1 << 30


def _parse_duration(text: object) -> int:
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 0 < seconds <= _MAX_DURATION_S:
        raise ValueError("must be a duration from 1s to 3650d, such as 90s, 30m, 6h or 2d")
    return seconds


def _parse_offset(text: object) -> int:
    return 0 if text == "0s" else _parse_duration(text)


Duration = Annotated[
    int, BeforeValidator(_parse_duration), Field(json_schema_extra={"format": "duration"})
]
Offset = Annotated[
    int, BeforeValidator(_parse_offset), Field(json_schema_extra={"format": "duration"})
]
Fraction = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Price = Annotated[Decimal, Field(ge=0, le=10**9, decimal_places=18)]
Labels = Annotated[
    dict[Annotated[str, Field(max_length=255)], Annotated[str, Field(max_length=255)]],
    AfterValidator(check_labels),
]
