# SPDX-License-Identifier: Apache-2.0
"""Named points on the way of a service: it tells of each that it comes to, so a test can end the
process there.
"""

from __future__ import annotations


def ignore(_: str) -> None:
    """Go on: what a service that is not under test does at a named point."""
