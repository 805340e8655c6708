# SPDX-License-Identifier: Apache-2.0
"""Data about the supported releases of Slurm. Each release has one folder of TOML files.

A release is a year and a month, for example ``24.11``. The names of the folders are the releases
that Gridstead supports. The wheel `gridstead` contains this package as `gridstead.slurm_releases`.
docs/howto/add-a-slurm-release.md describes how to add a release.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
# The release at the start of a Debian version, which may begin with an epoch: ``1:24.11.5-4``.
_VERSION = re.compile(r"(?:\d+:)?(\d\d\.\d\d)\b")


def known_releases(folder: Path = FOLDER) -> tuple[str, ...]:
    """Return the names of the supported releases, sorted."""
    releases = []
    for path in folder.iterdir():
        name = path.name
        if _VERSION.fullmatch(name):
            releases.append(name)
    return tuple(sorted(releases))


def release_of(version: str) -> str:
    """Return the release of a version: ``24.11`` for ``24.11.5`` or ``1:24.11.5-4+deb13u1``.

    Returns the version itself if it does not begin with a year and a month.
    """
    match = _VERSION.match(version)
    return match.group(1) if match else version


def read_release(release: str, subject: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return the content of a release's file ``rest.toml``, ``options.toml`` or ``costs.toml``.

    Args:
        release: The release, for example ``24.11``.
        subject: The name of the file without suffix.
        folder: The folder of all releases.

    Raises:
        KeyError: If the release is unknown. The message lists the known releases.
    """
    supported_releases = known_releases(folder)
    if release not in supported_releases:
        raise KeyError(
            f"Slurm {release} is not known; known releases: {', '.join(supported_releases)}"
        )
    text = (folder / release / f"{subject}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
