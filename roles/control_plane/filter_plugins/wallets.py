# SPDX-License-Identifier: Apache-2.0
"""Filters that compare a host's wallets with what is noted of them, a file each where Ansible runs.

Example: ``{{ {'supervisor': '/safe/supervisor.address'} | lost_wallets({}) }}`` is ``{'supervisor': '0x2b5a…'}`` where
that file says so, and nothing where there is no such file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def lost_wallets(notes: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses that are noted, by wallet, where the host has another wallet or none.

    Args:
        notes: Where the addresses are noted, by wallet.
        addresses: Those of the wallets that the host has.
    """
    return {name: noted for name, noted in _noted(notes).items() if noted != addresses.get(name)}


def unnoted_wallets(notes: Mapping[str, str], addresses: Mapping[str, str]) -> list[str]:
    """Return the wallets of which nothing or another address is noted, those that are still to be
    made too.
    """
    noted = _noted(notes)
    return [name for name in notes if name not in noted or noted[name] != addresses.get(name)]


def locked_wallets(notes: Mapping[str, str], addresses: Mapping[str, str]) -> list[str]:
    """Return the wallets that the host has while nothing is where they are noted, and so no
    password of theirs.
    """
    folders = {name: Path(path).parent for name, path in notes.items() if name in addresses}
    return [
        name for name, folder in folders.items() if not folder.is_dir() or not any(folder.iterdir())
    ]


def _noted(notes: Mapping[str, str]) -> dict[str, str]:
    return {
        name: Path(path).read_text(encoding="utf-8").strip()
        for name, path in notes.items()
        if Path(path).exists()
    }


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {
            "lost_wallets": lost_wallets,
            "unnoted_wallets": unnoted_wallets,
            "locked_wallets": locked_wallets,
        }
