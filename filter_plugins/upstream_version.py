# SPDX-License-Identifier: Apache-2.0
"""Filter ``upstream_version``: what of a Debian version its program says of itself.

Example: ``{{ '1:24.11.5-4+deb13u1' | upstream_version }}`` is ``24.11.5``.
"""

from __future__ import annotations

import re

UPSTREAM = re.compile(r"(?:[0-9]+:)?([0-9.]+)")  # between the epoch and what Debian added


def upstream_version(version: str) -> str:
    """Return a version without epoch and revision. What is no version stays as it is, so that it
    equals none.
    """
    match = UPSTREAM.match(version)
    return match[1] if match else version


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"upstream_version": upstream_version}
