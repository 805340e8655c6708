# SPDX-License-Identifier: Apache-2.0
"""Everything the lab's image depends on, as this machine and this checkout have it."""

from dataclasses import dataclass
from pathlib import Path

from gridstead_lab import sources

PACKAGES = Path(__file__).parent.parent / "packages.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything the image depends on.

    Shape: apt_conf is (file name, text), sorted; lock is a hashed lock file, empty before it
        exists.
    """

    sources: tuple[str, ...]
    apt_conf: tuple[tuple[str, str], ...]
    packages: tuple[str, ...]
    lock: str


def look(checkout: Path) -> Inputs:
    """Return the inputs as this machine and this checkout have them."""
    release = dict(
        line.split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    lock = checkout / "requirements/control.txt"
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.*"))]
    texts = [place.read_text() for place in places if place.is_file()]
    return Inputs(
        sources=sources.translate(texts, release["VERSION_CODENAME"].strip('"')),
        apt_conf=tuple(
            (file.name, file.read_text())
            for file in sorted(Path("/etc/apt/apt.conf.d").glob("99*"))
        ),
        packages=read_packages(PACKAGES.read_text()),
        lock=lock.read_text() if lock.is_file() else "",
    )


def read_packages(text: str) -> tuple[str, ...]:
    """Return the package names of a list with comments, sorted, each once."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(sorted({line for line in lines if line}))
