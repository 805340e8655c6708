# SPDX-License-Identifier: Apache-2.0
"""Failpoints are named points in a service where a test can end the process."""

from __future__ import annotations


def ignore(_name: str) -> None:
    """Do nothing at a failpoint; the default outside of tests."""
