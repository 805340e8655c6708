# SPDX-License-Identifier: Apache-2.0
"""Reads the inputs of the image of the lab's hosts from this machine and this checkout."""

from dataclasses import dataclass
from pathlib import Path

from gridstead_lab import apt_settings, commands, sources

PACKAGES = Path(__file__).parent.parent / "packages.txt"
# The lock files of Python packages, with the directories in which roles install their environments.
LOCKS = {"control.txt": "/opt/gridstead", "benchmarks.txt": "/opt/gridstead-benchmarks"}
APT_SUFFIXES = {".list", ".sources"}  # apt ignores files with other suffixes


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the image.

    Attributes:
        sources: The apt sources in the one-line format.
        apt_conf: The files of apt's configuration as pairs (file name, text).
        packages: The names of the Debian packages to install.
        locks: The texts of the lock files of Python packages, by the names of ``LOCKS``. Empty
            without these files.
    """

    sources: tuple[str, ...]
    apt_conf: tuple[tuple[str, str], ...]
    packages: tuple[str, ...]
    locks: tuple[tuple[str, str], ...]


def read_inputs(checkout: Path) -> Inputs:
    """Return the inputs of this machine and this checkout."""
    os_release = {}
    for line in Path("/etc/os-release").read_text().splitlines():
        name, _, value = line.partition("=")
        os_release[name] = value
    locks = []
    for name in LOCKS:
        lock_file = checkout / "requirements" / name
        if lock_file.is_file():
            locks.append((name, lock_file.read_text()))
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    source_files = [file for file in files if file.suffix in APT_SUFFIXES and file.is_file()]
    texts = [file.read_text() for file in source_files]
    apt_sources = sources.for_lab_suite(texts, os_release["VERSION_CODENAME"].strip('"'))
    uris = []
    for source in apt_sources:
        _, _, uri, *_ = source.split()
        uris.append(uri)
    apt_dump = commands.run(["apt-config", "dump"])
    acquire_settings = apt_settings.acquire_settings(apt_dump, uris, commands.run)
    return Inputs(
        sources=apt_sources,
        apt_conf=(("99machine", acquire_settings),),
        packages=read_packages(PACKAGES.read_text()),
        locks=tuple(locks),
    )


def read_packages(text: str) -> tuple[str, ...]:
    """Return the package names in a list with comments, sorted and without duplicates."""
    packages = set()
    for line in text.splitlines():
        package, _, _ = line.partition("#")
        packages.add(package.strip())
    return tuple(sorted(packages - {""}))
