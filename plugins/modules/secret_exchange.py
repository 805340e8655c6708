# SPDX-License-Identifier: Apache-2.0
"""Replaces secrets on the machine that runs Ansible. A later run continues an interrupted exchange.

Each secret is in a file. While hosts may still use the old secret, file ``NAME.old`` contains it.
While ``NAME.old`` exists, an exchange is in progress, and the module creates no further secret.
"""

from __future__ import annotations

import secrets
import string
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gridstead.site.plugins.module_utils.durable_file import write_whole

DOCUMENTATION = """
module: secret_exchange
short_description: Replace secrets that are files
description:
  - C(begun) copies the old secret to C(NAME.old) and replaces it by an alphanumeric secret of the
    same length.
  - C(ended) removes the old secret.
  - A secret without a file is stored elsewhere, for example in Ansible Vault. The module does not
    change it.
options:
  folder: {type: path, required: true, description: Folder of the files.}
  names: {type: list, elements: str, required: true, description: Names of the files.}
  state: {choices: [begun, ended], required: true, description: State of the exchange.}
"""
EXAMPLES = """
- name: Create a new MUNGE key
  gridstead.site.secret_exchange: {folder: /safe/place, names: [munge_key], state: begun}
"""
RETURN = """
new:
  type: list
  returned: always
  description: Names of the secrets that were replaced or whose old value was removed.
elsewhere: {type: list, returned: always, description: Names of the secrets that have no file.}
"""

ALPHABET = string.ascii_letters + string.digits


def old_path(path: Path) -> Path:
    """Return the path of the copy of the old secret."""
    return path.with_name(f"{path.name}.old")


def begin(path: Path, *, check_mode: bool) -> bool:
    """Replace the secret, unless in check mode. Return whether this call starts the exchange."""
    # If both files are equal, an earlier run was interrupted before it replaced the secret.
    if old_path(path).exists() and path.read_bytes() != old_path(path).read_bytes():
        return False
    if not check_mode:
        old_secret = path.read_bytes()
        write_whole(old_path(path), old_secret)
        new_secret = "".join(secrets.choice(ALPHABET) for _ in old_secret.strip())
        write_whole(path, f"{new_secret}\n".encode())
    return True


def end(path: Path, *, check_mode: bool) -> bool:
    """Remove the old secret, unless in check mode. Return whether there was an old secret."""
    exists = old_path(path).exists()
    if not check_mode:
        old_path(path).unlink(missing_ok=True)
    return exists


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "folder": {"type": "path", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
            "state": {"choices": ["begun", "ended"], "required": True},
        },
    )
    change_secret = begin if module.params["state"] == "begun" else end
    new_names, names_elsewhere = [], []
    for name in module.params["names"]:
        path = Path(module.params["folder"], name)
        if not path.exists():
            names_elsewhere.append(path.name)
        elif change_secret(path, check_mode=module.check_mode):
            new_names.append(path.name)
    module.exit_json(changed=bool(new_names), new=new_names, elsewhere=names_elsewhere)


if __name__ == "__main__":
    main()
