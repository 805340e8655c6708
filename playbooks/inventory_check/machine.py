# SPDX-License-Identifier: Apache-2.0
"""This machine: where the inventory's secrets and backups are kept, and how long the authority there is good."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

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
            where=where, found=found, allowed="an absolute path on the machine that runs Ansible", about=_ABOUT
        )
        return
    folder = Path(said)
    if folder.exists() and not folder.is_dir():
        yield Problem(where=where, found=f"{folder} is no folder", allowed="a folder", acts=MACHINE, about=_ABOUT)
        return
    parent = next(one for one in (folder, *folder.parents) if one.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        allowed = "a folder that the one who runs Ansible may write"
        yield Problem(where=where, found=f"{parent} cannot be written", allowed=allowed, acts=MACHINE, about=_ABOUT)
    if folder.exists() and folder.stat().st_mode & _OTHERS:
        mode = stat.filemode(folder.stat().st_mode)
        allowed = f"nobody but its owner: chmod 0700 {folder}"
        yield Problem(where=where, found=f"others may enter {folder} ({mode})", allowed=allowed, acts=MACHINE)
    for file in sorted(folder.glob("*")):
        if file.is_file() and file.stat().st_mode & _OTHERS:
            mode = stat.filemode(file.stat().st_mode)
            allowed = f"nobody but its owner: chmod 0600 {file}"
            yield Problem(where=where, found=f"others may read {file} ({mode})", allowed=allowed, acts=MACHINE)
    if _would_be_committed(folder, parent):
        yield Problem(
            where=where,
            found=f"{folder} is in a git work tree that does not ignore it",
            allowed="a folder that .gitignore names, or one outside",
            acts=MACHINE,
        )


def among_hosts(site: Site) -> Iterator[Problem]:
    """Find folders beside the inventory's hosts that Ansible would read too, each line of a file as a host's name."""
    inventory = Path(str(site.first().value("inventory_dir", "/dev/null")))
    for where, said in (
        ("gridstead_secrets_dir", site.secrets_dir),
        ("archive_dir", site.first().value("archive_dir")),
    ):
        folder = Path(str(said))
        if folder.is_relative_to(inventory) and not folder.relative_to(inventory).parts[0].startswith("."):
            yield Problem(
                where=where,
                found=f"Ansible would read {folder} as a list of hosts, and show what is in it",
                allowed="a name that begins with a dot, or a folder that is not beside hosts.yml",
                about=frozenset({where}),
            )


def _would_be_committed(folder: Path, parent: Path) -> bool:
    asked = subprocess.run(
        ["git", "-C", str(parent), "check-ignore", "--quiet", str(folder / "secret")], capture_output=True, check=False
    )
    return asked.returncode == 1  # 0: ignored; 128: no work tree


def authority(site: Site, now: datetime) -> Iterator[Problem]:
    """Find times of certificates that contradict each other, and an authority that ends before what it signs."""
    host = site.first()
    valid, own = host.number("pki_valid_days"), host.number("pki_authority_valid_days")
    renew = host.number("pki_renew_before_days")
    if valid and own and valid > own:
        yield Problem(
            where="pki_valid_days",
            found=f"{valid}, and the authority's own certificate ends after pki_authority_valid_days, {own}",
            allowed="no certificate outlives its authority",
            about=frozenset({"pki_valid_days"}),
        )
    if valid and renew and renew >= valid:
        yield Problem(
            where="pki_renew_before_days",
            found=f"{renew}, and a certificate is valid for pki_valid_days, {valid}",
            allowed="less than that, or every run renews everything",
            about=frozenset({"pki_renew_before_days"}),
        )
    file = Path(str(host.value("pki_authority_dir", ""))) / "ca.crt"
    if not file.is_file():
        return
    try:
        ends = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    except ValueError as error:
        yield Problem(where=str(file), found=f"no certificate: {error}", allowed="PEM", acts=MACHINE)
        return
    if ends < now + timedelta(days=renew or 0):
        yield Problem(
            where=str(file),
            found=f"the authority ends on {ends:%Y-%m-%d}, within pki_renew_before_days, {renew}",
            allowed="an authority that outlives a run; move ca.key and ca.crt away, and the next run makes another",
            acts=MACHINE,
        )


def today() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
