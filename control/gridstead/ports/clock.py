# SPDX-License-Identifier: Apache-2.0
"""What time it is."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall time."""

    def now(self) -> int:
        """Return Unix seconds."""
        ...
