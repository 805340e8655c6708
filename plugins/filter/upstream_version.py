# SPDX-License-Identifier: Apache-2.0
"""Filter ``upstream_version``: the upstream part of a Debian version, which programs print.

Example: ``{{ '1:24.11.5-4+deb13u1' | gridstead.site.upstream_version }}`` is ``24.11.5``.
"""

from __future__ import annotations

import re

UPSTREAM = re.compile(r"(?:[0-9]+:)?([0-9.]+)")  # without epoch and Debian revision


def upstream_version(version: str) -> str:
    """Return a Debian version without epoch and revision.

    A text that is not a version is returned unchanged.
    """
    match = UPSTREAM.match(version)
    return match[1] if match else version


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"upstream_version": upstream_version}
