# SPDX-License-Identifier: Apache-2.0
"""Port of the clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The wall clock."""

    def now(self) -> int:
        """Return the current time. Unit: Unix seconds."""
        ...
