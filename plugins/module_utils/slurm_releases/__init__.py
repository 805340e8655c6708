# SPDX-License-Identifier: Apache-2.0
"""What differs between the releases of Slurm. Each release has one folder of TOML files.

A release is a year and a month, for example ``24.11``. The names of the folders are the releases
that Gridstead knows. The wheel `gridstead` contains this package as `gridstead.slurm_releases`.
docs/howto/add-a-slurm-release.md describes how a release is added.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
_VERSION = re.compile(r"(?:\d+:)?(\d\d\.\d\d)\b")


def known_releases(folder: Path = FOLDER) -> tuple[str, ...]:
    """Return the names of the known releases, sorted."""
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
    """Return the data of a release about a subject: ``rest``, ``options`` or ``costs``.

    Raises:
        KeyError: If the release is unknown. The message names the known ones.
    """
    known = known_releases(folder)
    if release not in known:
        raise KeyError(f"Slurm {release} is not known; known releases: {', '.join(known)}")
    text = (folder / release / f"{subject}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
