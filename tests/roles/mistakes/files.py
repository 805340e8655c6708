# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the folders of secrets and backups, and in the certificate authority."""

from __future__ import annotations

import datetime as dt
import subprocess

from tests.roles.inventories import NOW, Inventory, make_authority
from tests.roles.mistakes.table import Mistakes, caused_by_earlier_entry

DAY = dt.timedelta(days=1)


def make_secrets_readable(inventory: Inventory) -> None:
    inventory.secrets.mkdir(mode=0o755)
    (inventory.secrets / "munge_key").write_text(64 * "k")


def rename_only_the_variables(inventory: Inventory) -> None:
    """Set the variables to hidden folders, but leave the files in the former folders."""
    folder = inventory.secrets.parent / "site"
    for name in ("secrets", "backups"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("content")
    (folder / ".secrets").mkdir(mode=0o700)
    inventory.set_variables(inventory_dir=str(folder), gridstead_secrets_dir=f"{folder}/.secrets")


def create_git_work_tree(inventory: Inventory) -> None:
    subprocess.run(["git", "init", "--quiet", inventory.secrets.parent], check=True)


def make_expired_authority(inventory: Inventory) -> None:
    make_authority(inventory.secrets / "pki", NOW - 300 * DAY, NOW - 20 * DAY)


PATH_AND_RENEWAL: Mistakes = {
    "secrets-relative-path": (
        lambda inventory: inventory.set_variables(gridstead_secrets_dir="secrets"),
        ('gridstead_secrets_dir: "secrets"', "absolute path"),
    ),
    "renewal-too-late": (
        lambda inventory: inventory.set_variables(pki_renew_before_days=365),
        ("pki_renew_before_days: 365", "less"),
    ),
}

SECRETS_AND_AUTHORITY: Mistakes = {
    "secrets-open": (make_secrets_readable, ("other users may enter", "chmod 0700")),
    "secret-readable": (
        caused_by_earlier_entry,
        ("other users may read", "munge_key", "chmod 0600"),
    ),
    "secrets-committed": (
        create_git_work_tree,
        ("gridstead_secrets_dir", "git work tree that does not ignore it"),
    ),
    "authority-expired": (
        make_expired_authority,
        ("pki/ca.crt: the authority expired on 2029-12-12", "playbooks/authority.yml"),
    ),
    "certificates-outlive": (
        lambda inventory: inventory.set_variables(pki_valid_days=5000),
        ("pki_valid_days: 5000", "authority"),
    ),
}

FOLDERS_IN_INVENTORY: Mistakes = {
    "secrets-among-hosts": (
        lambda inventory: inventory.set_variables(inventory_dir=str(inventory.secrets.parent)),
        (
            "gridstead_secrets_dir: Ansible would read",
            "mv ",
            "/secrets /",
            "/.secrets; otherwise the next run",
        ),
    ),
    "backups-among-hosts": (
        lambda inventory: inventory.set_variables(
            archive_dir=str(inventory.secrets.parent / "archives" / "old")
        ),
        (
            "archive_dir: Ansible would read",
            "/.archives/old, or",
            "/archives /",
            "/.archives. To be fixed",
        ),
    ),
}

FILES_NOT_MOVED: Mistakes = {
    "secrets-not-renamed": (
        rename_only_the_variables,
        ("gridstead_secrets_dir: ", "/.secrets is empty, but ", "/secrets is not", "mv "),
    ),
    "backups-not-renamed": (
        caused_by_earlier_entry,
        ("archive_dir: ", "/.backups is empty, but ", "mv "),
    ),
}

SECRETS_ARE_INVENTORY: Mistakes = {
    "secrets-are-the-inventory": (
        lambda inventory: inventory.set_variables(inventory_dir=str(inventory.secrets)),
        ("gridstead_secrets_dir: it is the inventory folder", "/.secrets"),
    ),
}

SECRETS_ARE_A_FILE: Mistakes = {
    "secrets-in-a-file": (
        lambda inventory: inventory.secrets.touch(),
        ("gridstead_secrets_dir", "is not a folder"),
    ),
}
