# SPDX-License-Identifier: Apache-2.0
"""The wall clock of the machine."""

from __future__ import annotations

import time


class SystemClock:
    """Implements port ``Clock`` with the machine's clock."""

    def now(self) -> int:
        """Return the time in Unix seconds."""
        return int(time.time())
