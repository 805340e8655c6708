# SPDX-License-Identifier: Apache-2.0
"""The default function for failpoints.

A failpoint is a named point in a service at which a crash test can kill the process.
"""

from __future__ import annotations


def ignore(_name: str) -> None:
    """Do nothing at a failpoint."""
