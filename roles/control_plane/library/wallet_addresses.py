# SPDX-License-Identifier: Apache-2.0
"""Whose the wallets on a host are, without their passwords and before the command is installed."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: wallet_addresses
short_description: The addresses of the wallets that a host has
description:
  - Reads key files and changes nothing. It tells their addresses and nothing else of them.
options:
  folder: {type: path, required: true, description: Where the key files are.}
  names: {type: list, elements: str, required: true, description: Names of the wallets; their files end with C(.json).}
"""
EXAMPLES = """
- name: Learn whose wallet is here
  wallet_addresses: {folder: /etc/gridstead/wallets, names: [supervisor]}
"""
RETURN = """
addresses: {type: dict, returned: always, description: "By name, for each that is there, 0x and 40 small digits."}
"""

_ADDRESS = re.compile(r"(0x)?[0-9a-f]{40}")


class NoWallet(Exception):
    """A file that is there names no address."""


def address_of(keystore: Path) -> str:
    """Return the address that a V3 key file names, in lower case.

    Raises:
        NoWallet: It names none.
    """
    try:
        said = str(json.loads(keystore.read_bytes())["address"]).lower()
    except (ValueError, KeyError, TypeError) as err:
        raise NoWallet(f"{keystore} is no wallet") from err
    if not _ADDRESS.fullmatch(said):
        raise NoWallet(f"{keystore} is no wallet")
    return "0x" + said.removeprefix("0x")


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "folder": {"type": "path", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
        },
    )
    files = {name: Path(module.params["folder"], f"{name}.json") for name in module.params["names"]}
    try:
        addresses = {name: address_of(file) for name, file in files.items() if file.exists()}
    except NoWallet as err:
        module.fail_json(
            msg=f"{err}: it names no address. Put back the one that was there: docs/howto/backup.md."
        )
    module.exit_json(changed=False, addresses=addresses)


if __name__ == "__main__":
    main()
