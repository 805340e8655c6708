# SPDX-License-Identifier: Apache-2.0
"""Filters that compare the wallets of a host with the addresses recorded on the Ansible controller.

Each address is recorded in a file. Example:
``{{ {'supervisor': '/safe/supervisor.address'} | gridstead.site.lost_wallets({}) }}`` is
``{'supervisor': '0x2b5a…'}`` if the file contains this address, and ``{}`` if the file is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def lost_wallets(address_files: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the recorded addresses of wallets that the host does not have, by wallet.

    Args:
        address_files: Paths of the files that record the addresses, by wallet.
        addresses: Addresses of the host's wallets, by wallet.
    """
    recorded_addresses = _read_addresses(address_files)
    return {
        name: address
        for name, address in recorded_addresses.items()
        if address != addresses.get(name)
    }


def unnoted_wallets(address_files: Mapping[str, str], addresses: Mapping[str, str]) -> list[str]:
    """Return the wallets whose present address is not recorded.

    A wallet that the host does not have is returned too.

    Args:
        address_files: Paths of the files that record the addresses, by wallet.
        addresses: Addresses of the host's wallets, by wallet.
    """
    recorded_addresses = _read_addresses(address_files)
    unrecorded_names = []
    for name in address_files:
        is_recorded = name in recorded_addresses and recorded_addresses[name] == addresses.get(name)
        if not is_recorded:
            unrecorded_names.append(name)
    return unrecorded_names


def locked_wallets(address_files: Mapping[str, str], addresses: Mapping[str, str]) -> list[str]:
    """Return the host's wallets whose passwords are missing on the Ansible controller.

    A password is in the same folder as the file that records the address of the wallet. The
    password counts as missing if this folder is empty or missing.
    """
    locked_names = []
    for name, path in address_files.items():
        folder = Path(path).parent
        is_empty = not folder.is_dir() or not any(folder.iterdir())
        if name in addresses and is_empty:
            locked_names.append(name)
    return locked_names


def _read_addresses(address_files: Mapping[str, str]) -> dict[str, str]:
    recorded_addresses = {}
    for name, path in address_files.items():
        if Path(path).exists():
            recorded_addresses[name] = Path(path).read_text(encoding="utf-8").strip()
    return recorded_addresses


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {
            "lost_wallets": lost_wallets,
            "unnoted_wallets": unnoted_wallets,
            "locked_wallets": locked_wallets,
        }
