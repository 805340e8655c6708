# SPDX-License-Identifier: Apache-2.0
"""Put new secrets in place of old ones, where Ansible runs, so that an exchange that was cut short
can be gone on with.

Each secret is a file. While hosts may still have the old one it is kept beside the new one, as
``NAME.old``, and says that an exchange is under way: asked again, the module leaves the new one as
it is.
"""

from __future__ import annotations

import secrets
import string
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_file import write_whole

DOCUMENTATION = """
module: secret_exchange
short_description: Exchange secrets that are kept in files
description:
  - C(begun) keeps the old secret as C(NAME.old) and puts a new one of the same length in its place, letters and digits.
  - C(ended) removes the old one.
  - A secret without a file is kept elsewhere, such as in a vault, and left alone.
options:
  folder: {type: path, required: true, description: Where the files are.}
  names: {type: list, elements: str, required: true, description: Names of the files.}
  state: {choices: [begun, ended], required: true, description: Where the exchange is.}
"""
EXAMPLES = """
- name: Have a new key
  secret_exchange: {folder: /safe/place, names: [munge_key], state: begun}
"""
RETURN = """
new: {type: list, returned: always, description: Names of the secrets that became new, or whose old ones went.}
elsewhere: {type: list, returned: always, description: Names of the secrets that have no file.}
"""

ALPHABET = string.ascii_letters + string.digits


def old(path: Path) -> Path:
    """Return where the old secret is kept."""
    return path.with_name(f"{path.name}.old")


def begin(path: Path, *, check: bool) -> bool:
    """The file holds a new secret, unless ``check``; return whether it did not before."""
    if old(path).exists() and path.read_bytes() != old(path).read_bytes():
        return False
    if not check:
        now = path.read_bytes()
        write_whole(old(path), now)
        new = "".join(secrets.choice(ALPHABET) for _ in now.strip())
        write_whole(path, f"{new}\n".encode())
    return True


def end(path: Path, *, check: bool) -> bool:
    """The old secret is gone, unless ``check``; return whether it was not before."""
    is_left = old(path).exists()
    if not check:
        old(path).unlink(missing_ok=True)
    return is_left


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "folder": {"type": "path", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
            "state": {"choices": ["begun", "ended"], "required": True},
        },
    )
    paths = [Path(module.params["folder"], name) for name in module.params["names"]]
    act = begin if module.params["state"] == "begun" else end
    new = [path.name for path in paths if path.exists() and act(path, check=module.check_mode)]
    module.exit_json(
        changed=bool(new), new=new, elsewhere=[path.name for path in paths if not path.exists()]
    )


if __name__ == "__main__":
    main()
