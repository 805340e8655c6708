# SPDX-License-Identifier: Apache-2.0
"""Checks the folders of secrets and backups on the machine that runs Ansible."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from .diagnostic import MACHINE, Diagnostic
from .inventory import Host, Inventory

_ABOUT = frozenset({"gridstead_secrets_dir"})
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def secrets(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find mistakes of the folder of secrets.

    The folder must have an absolute path and be writable. Other users must not be able to read it,
    and git must ignore it.
    """
    path = inventory.secrets_dir
    if isinstance(path, str) and path.startswith("/"):
        yield from _faults_of_secrets("gridstead_secrets_dir", Path(path))
    else:
        yield Diagnostic(
            where="gridstead_secrets_dir",
            seen=f'"{path}"' if path else "missing",
            allowed="an absolute path on the machine that runs Ansible",
            about=_ABOUT,
        )


def _faults_of_secrets(where: str, folder: Path) -> Iterator[Diagnostic]:
    if folder.exists() and not folder.is_dir():
        fault = f"{folder} is not a folder"
        yield Diagnostic(where=where, seen=fault, allowed="a folder", acts=MACHINE, about=_ABOUT)
        return
    parent = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        yield Diagnostic(
            where=where,
            seen=f"{parent} cannot be written",
            allowed="a folder that the user who runs Ansible may write",
            acts=MACHINE,
            about=_ABOUT,
        )
    yield from _open_to_others(where, folder)
    if _would_be_committed(folder, parent):
        yield Diagnostic(
            where=where,
            seen=f"{folder} is in a git work tree that does not ignore it",
            allowed="a folder that .gitignore lists, or a folder outside of the work tree",
            acts=MACHINE,
        )


def _open_to_others(where: str, folder: Path) -> Iterator[Diagnostic]:
    if folder.exists() and folder.stat().st_mode & _OTHERS:
        yield Diagnostic(
            where=where,
            seen=f"others may enter {folder} ({stat.filemode(folder.stat().st_mode)})",
            allowed=f"access only for its owner: chmod 0700 {folder}",
            acts=MACHINE,
        )
    for file in sorted(folder.glob("*")):
        if file.is_file() and file.stat().st_mode & _OTHERS:
            yield Diagnostic(
                where=where,
                seen=f"others may read {file} ({stat.filemode(file.stat().st_mode)})",
                allowed=f"access only for its owner: chmod 0600 {file}",
                acts=MACHINE,
            )


def among_hosts(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find folders of secrets or backups inside the inventory folder.

    Ansible reads each file there as a list of hosts, unless a folder's name starts with a dot. Also
    finds an empty folder with the right name while the files are still in the folder without the
    dot.
    """
    host = inventory.first().with_variables({"gridstead_secrets_dir": inventory.secrets_dir})
    inventory_dir = Path(str(host.value("inventory_dir", "/dev/null")))
    warning = "; in a new folder all secrets would be new, but hosts have the old ones"
    yield from _in_inventory(host, inventory_dir, "gridstead_secrets_dir", "secrets", warning)
    yield from _in_inventory(host, inventory_dir, "archive_dir", "backups", "")


def _in_inventory(
    host: Host, inventory_dir: Path, where: str, name: str, warning: str
) -> Iterator[Diagnostic]:
    folder = Path(os.path.normpath(str(host.value(where))))
    if folder == inventory_dir:
        fault = f"it is {inventory_dir} itself, where Ansible reads every file as a list of hosts"
        allowed = f"a folder such as {inventory_dir / f'.{name}'}"
        yield Diagnostic(where=where, seen=fault, allowed=allowed, about=frozenset({where}))
    elif folder.is_relative_to(inventory_dir):
        yield from _next_to_hosts(where, inventory_dir, folder.relative_to(inventory_dir), warning)


def _next_to_hosts(
    where: str, inventory_dir: Path, folder: Path, warning: str
) -> Iterator[Diagnostic]:
    name, *rest = folder.parts
    plain = inventory_dir / name.removeprefix(".")
    dotted = inventory_dir / f".{name.removeprefix('.')}"
    rename = f"rename the folder and set the variable: mv {plain} {dotted}{warning}"
    if not name.startswith("."):
        yield Diagnostic(
            where=where,
            seen=f"Ansible would read {inventory_dir / folder} as a list of hosts, and print its"
            " content",
            allowed=f"{dotted.joinpath(*rest)}, or a folder not next to hosts.yml; {rename}",
            about=frozenset({where}),
        )
    elif _has_files(plain.joinpath(*rest)) and not _has_files(inventory_dir / folder):
        yield Diagnostic(
            where=where,
            seen=f"{inventory_dir / folder} is empty, but {plain.joinpath(*rest)} is not",
            allowed=rename,
            acts=MACHINE,
            about=frozenset({where}),
        )


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _would_be_committed(folder: Path, parent: Path) -> bool:
    result = subprocess.run(
        ["git", "-C", str(parent), "check-ignore", "--quiet", str(folder / "secret")],
        capture_output=True,
        check=False,
    )
    return result.returncode == 1  # 0: ignored; 128: no work tree


def today() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)
