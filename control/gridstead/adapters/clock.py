# SPDX-License-Identifier: Apache-2.0
"""Wall time."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's clock. Implements port ``Clock``."""

    def now(self) -> int:
        """Return Unix seconds."""
        return int(time.time())
