# SPDX-License-Identifier: Apache-2.0
"""Reads the addresses of the wallets on a host from their key files. Needs no password."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: wallet_addresses
short_description: Read the addresses of the wallets on a host
description:
  - Reads key files and returns only their addresses. Changes nothing.
options:
  folder:
    description: Directory of the key files.
    type: path
    required: true
  names:
    description: Names of the wallets. The file of a wallet is its name with the suffix C(.json).
    type: list
    elements: str
    required: true
"""
EXAMPLES = """
- name: Read the address of the supervisor's wallet
  gridstead.site.wallet_addresses: {folder: /etc/gridstead/wallets, names: [supervisor]}
"""
RETURN = """
addresses:
  description: Address of each existing wallet by name, as 0x and 40 hex digits in lower case.
  type: dict
  returned: always
"""

_ADDRESS = re.compile(r"(0x)?[0-9a-f]{40}")


class InvalidKeyFile(Exception):
    """A file contains no address."""


def address_of(keystore: Path) -> str:
    """Return the address of a V3 key file in lower case.

    Raises:
        InvalidKeyFile: If the file contains no address.
    """
    try:
        address = str(json.loads(keystore.read_bytes())["address"]).lower()
    except (ValueError, KeyError, TypeError) as err:
        raise InvalidKeyFile(f"{keystore} is not a key file of a wallet") from err
    if not _ADDRESS.fullmatch(address):
        raise InvalidKeyFile(f"{keystore} is not a key file of a wallet")
    return "0x" + address.removeprefix("0x")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "folder": {"type": "path", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
        },
    )
    addresses = {}
    try:
        for name in module.params["names"]:
            file = Path(module.params["folder"], f"{name}.json")
            if file.exists():
                addresses[name] = address_of(file)
    except InvalidKeyFile as err:
        module.fail_json(
            msg=f"{err}: it contains no address. Restore the wallet from a backup, as"
            " docs/howto/backup.md describes."
        )
    module.exit_json(changed=False, addresses=addresses)


if __name__ == "__main__":
    main()
