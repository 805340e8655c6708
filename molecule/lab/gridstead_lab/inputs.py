# SPDX-License-Identifier: Apache-2.0
"""Everything the lab's image depends on, as this machine and this checkout have it."""

import itertools
from dataclasses import dataclass
from pathlib import Path

from gridstead_lab import sources

PACKAGES = Path(__file__).parent.parent / "packages.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything the image depends on.

    Shape: apt_conf is (file name, text), sorted; locks are (file name, text), maybe empty.
    """

    sources: tuple[str, ...]
    apt_conf: tuple[tuple[str, str], ...]
    packages: tuple[str, ...]
    locks: tuple[tuple[str, str], ...]


def look(checkout: Path) -> Inputs:
    """Return the inputs as this machine and this checkout have them."""
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.*"))]
    texts = [place.read_text() for place in places if place.is_file()]
    return Inputs(
        sources=sources.translate(texts, release["VERSION_CODENAME"].strip('"')),
        apt_conf=tuple((file.name, file.read_text()) for file in sorted(Path("/etc/apt/apt.conf.d").glob("99*"))),
        packages=read_packages(PACKAGES.read_text()),
        locks=_locks(checkout / "requirements"),
    )


def read_packages(text: str) -> tuple[str, ...]:
    """Return the package names of a list with comments, sorted, each once."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(sorted({line for line in lines if line}))


def pinned(lock: str, name: str) -> str:
    """Return the entry of one package in a hashed lock file, with its hashes; empty if absent."""
    lines = lock.splitlines()
    for start, line in enumerate(lines):
        if not line.startswith(f"{name}=="):
            continue
        hashes = itertools.takewhile(lambda text: text.startswith("    --hash"), lines[start + 1 :])
        return "\n".join([line, *hashes]) + "\n"
    return ""


def _locks(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return the locks of the control plane and of its installer; empty before they exist."""
    control, dev = folder / "control.txt", folder / "dev.txt"
    if not control.is_file() or not dev.is_file():
        return ()
    return (("control.txt", control.read_text()), ("uv.txt", pinned(dev.read_text(), "uv")))
