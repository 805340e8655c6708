# SPDX-License-Identifier: Apache-2.0
"""Checks the folders of secrets and backups on the machine that runs Ansible."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .diagnostic import MACHINE, Diagnostic
from .inventory import Host, Inventory

_SECRETS_VARIABLE = frozenset({"gridstead_secrets_dir"})
_ACCESS_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_secrets_folder(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find mistakes in the path and access mode of the folder of secrets.

    The folder must have an absolute path and be writable. Other users must not be able to read it,
    and git must ignore it.
    """
    path = inventory.secrets_dir
    if isinstance(path, str) and path.startswith("/"):
        yield from _check_folder("gridstead_secrets_dir", Path(path))
    else:
        yield Diagnostic(
            where="gridstead_secrets_dir",
            fault=f'"{path}"' if path else "missing",
            allowed="an absolute path on the machine that runs Ansible",
            affected_names=_SECRETS_VARIABLE,
        )


def _check_folder(where: str, folder: Path) -> Iterator[Diagnostic]:
    if folder.exists() and not folder.is_dir():
        fault = f"{folder} is not a folder"
        yield Diagnostic(
            where=where,
            fault=fault,
            allowed="a folder",
            responsible=MACHINE,
            affected_names=_SECRETS_VARIABLE,
        )
        return
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        yield Diagnostic(
            where=where,
            fault=f"you cannot write to {parent}",
            allowed="a folder to which the user who runs Ansible may write",
            responsible=MACHINE,
            affected_names=_SECRETS_VARIABLE,
        )
    yield from _check_access(where, folder)
    if _would_be_committed(folder, parent):
        yield Diagnostic(
            where=where,
            fault=f"{folder} is in a git work tree that does not ignore it",
            allowed="a folder in .gitignore, or a folder outside of the work tree",
            responsible=MACHINE,
        )


def _check_access(where: str, folder: Path) -> Iterator[Diagnostic]:
    if folder.exists() and folder.stat().st_mode & _ACCESS_OF_OTHERS:
        yield Diagnostic(
            where=where,
            fault=f"other users may enter {folder} ({stat.filemode(folder.stat().st_mode)})",
            allowed=f"access only for its owner: chmod 0700 {folder}",
            responsible=MACHINE,
        )
    for file in sorted(folder.glob("*")):
        if file.is_file() and file.stat().st_mode & _ACCESS_OF_OTHERS:
            yield Diagnostic(
                where=where,
                fault=f"other users may read {file} ({stat.filemode(file.stat().st_mode)})",
                allowed=f"access only for its owner: chmod 0600 {file}",
                responsible=MACHINE,
            )


def check_inventory_folder(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find folders of secrets or backups inside the inventory folder.

    Ansible reads each file in the inventory folder as a list of hosts, except files in a folder
    whose name starts with a dot. The function also finds a folder that the operator renamed only in
    the inventory, not on the disk. Then the folder with the dot is empty, and the folder without
    the dot contains the files.
    """
    host = inventory.first().with_variables({"gridstead_secrets_dir": inventory.secrets_dir})
    inventory_dir = Path(str(host.value("inventory_dir", "/dev/null")))
    warning = "; otherwise the next run creates new secrets, but the hosts have the old secrets"
    yield from _check_location(host, inventory_dir, "gridstead_secrets_dir", "secrets", warning)
    yield from _check_location(host, inventory_dir, "archive_dir", "backups", "")


def _check_location(
    host: Host, inventory_dir: Path, where: str, name: str, warning: str
) -> Iterator[Diagnostic]:
    folder = Path(os.path.normpath(str(host.value(where))))
    if folder == inventory_dir:
        fault = (
            f"it is the inventory folder {inventory_dir}, where Ansible reads every file as a list"
            " of hosts"
        )
        allowed = f"a folder such as {inventory_dir / f'.{name}'}"
        yield Diagnostic(
            where=where, fault=fault, allowed=allowed, affected_names=frozenset({where})
        )
    elif folder.is_relative_to(inventory_dir):
        yield from _check_dot(where, inventory_dir, folder.relative_to(inventory_dir), warning)


def _check_dot(where: str, inventory_dir: Path, folder: Path, warning: str) -> Iterator[Diagnostic]:
    name, *subfolders = folder.parts
    plain_name = name.removeprefix(".")
    old_path = inventory_dir / plain_name
    new_path = inventory_dir / f".{plain_name}"
    old_folder = old_path.joinpath(*subfolders)
    new_folder = new_path.joinpath(*subfolders)
    rename_advice = f"rename the folder and set the variable: mv {old_path} {new_path}{warning}"
    if not name.startswith("."):
        yield Diagnostic(
            where=where,
            fault=f"Ansible would read {inventory_dir / folder} as a list of hosts, and print its"
            " content",
            allowed=f"{new_folder}, or a folder outside of the inventory; {rename_advice}",
            affected_names=frozenset({where}),
        )
    elif _has_files(old_folder) and not _has_files(inventory_dir / folder):
        yield Diagnostic(
            where=where,
            fault=f"{inventory_dir / folder} is empty, but {old_folder} is not",
            allowed=rename_advice,
            responsible=MACHINE,
            affected_names=frozenset({where}),
        )


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _would_be_committed(folder: Path, parent: Path) -> bool:
    result = subprocess.run(
        ["git", "-C", str(parent), "check-ignore", "--quiet", str(folder / "secret")],
        capture_output=True,
        check=False,
    )
    return result.returncode == 1  # 0: git ignores the file; 128: not in a work tree
