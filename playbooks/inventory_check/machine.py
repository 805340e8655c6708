# SPDX-License-Identifier: Apache-2.0
"""This machine: where the inventory's secrets and backups are kept."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from inventory_check.problem import MACHINE, Problem
from inventory_check.site import Site

_ABOUT = frozenset({"gridstead_secrets_dir"})
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def secrets(site: Site) -> Iterator[Problem]:
    """Find a folder of secrets that is nowhere, cannot be made, or tells others what is in it."""
    where, said = "gridstead_secrets_dir", site.secrets_dir
    if not isinstance(said, str) or not said.startswith("/"):
        found = f'"{said}"' if said else "missing"
        yield Problem(
            where=where,
            found=found,
            allowed="an absolute path on the machine that runs Ansible",
            about=_ABOUT,
        )
        return
    folder = Path(said)
    if folder.exists() and not folder.is_dir():
        yield Problem(
            where=where,
            found=f"{folder} is no folder",
            allowed="a folder",
            acts=MACHINE,
            about=_ABOUT,
        )
        return
    parent = next(one for one in (folder, *folder.parents) if one.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        allowed = "a folder that the one who runs Ansible may write"
        yield Problem(
            where=where,
            found=f"{parent} cannot be written",
            allowed=allowed,
            acts=MACHINE,
            about=_ABOUT,
        )
    if folder.exists() and folder.stat().st_mode & _OTHERS:
        mode = stat.filemode(folder.stat().st_mode)
        allowed = f"nobody but its owner: chmod 0700 {folder}"
        yield Problem(
            where=where, found=f"others may enter {folder} ({mode})", allowed=allowed, acts=MACHINE
        )
    for file in sorted(folder.glob("*")):
        if file.is_file() and file.stat().st_mode & _OTHERS:
            mode = stat.filemode(file.stat().st_mode)
            allowed = f"nobody but its owner: chmod 0600 {file}"
            yield Problem(
                where=where, found=f"others may read {file} ({mode})", allowed=allowed, acts=MACHINE
            )
    if _would_be_committed(folder, parent):
        yield Problem(
            where=where,
            found=f"{folder} is in a git work tree that does not ignore it",
            allowed="a folder that .gitignore names, or one outside",
            acts=MACHINE,
        )


def among_hosts(site: Site) -> Iterator[Problem]:
    """Find folders beside the inventory's hosts that Ansible would read too, each line of a file as
    a host's name.

    Also such that have a good name and nothing in them, where what the site has is still under the
    bad one.
    """
    host = site.first().with_variables({"gridstead_secrets_dir": site.secrets_dir})
    inventory = Path(str(host.value("inventory_dir", "/dev/null")))
    for where, what, else_ in (
        (
            "gridstead_secrets_dir",
            "secrets",
            "; in a new folder all secrets would be new, and hosts have the old ones",
        ),
        ("archive_dir", "backups", ""),
    ):
        folder = Path(os.path.normpath(str(host.value(where))))
        if folder == inventory:
            found = f"it is {inventory} itself, where Ansible reads every file as a list of hosts"
            allowed = f"a folder such as {inventory / f'.{what}'}"
            yield Problem(where=where, found=found, allowed=allowed, about=frozenset({where}))
        elif folder.is_relative_to(inventory):
            yield from _beside_hosts(where, inventory, folder.relative_to(inventory), else_)


def _beside_hosts(where: str, inventory: Path, folder: Path, else_: str) -> Iterator[Problem]:
    name, *rest = folder.parts
    plain, dotted = inventory / name.removeprefix("."), inventory / f".{name.removeprefix('.')}"
    rename = f"rename the folder and say it so here: mv {plain} {dotted}{else_}"
    if not name.startswith("."):
        found = (
            f"Ansible would read {inventory / folder} as a list of hosts, and show what is in it"
        )
        allowed = f"{dotted.joinpath(*rest)}, or a folder that is not beside hosts.yml; {rename}"
        yield Problem(where=where, found=found, allowed=allowed, about=frozenset({where}))
    elif _has_any(plain.joinpath(*rest)) and not _has_any(inventory / folder):
        found = f"{inventory / folder} has nothing, and {plain.joinpath(*rest)} has something"
        yield Problem(
            where=where, found=found, allowed=rename, acts=MACHINE, about=frozenset({where})
        )


def _has_any(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _would_be_committed(folder: Path, parent: Path) -> bool:
    asked = subprocess.run(
        ["git", "-C", str(parent), "check-ignore", "--quiet", str(folder / "secret")],
        capture_output=True,
        check=False,
    )
    return asked.returncode == 1  # 0: ignored; 128: no work tree


def today() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
