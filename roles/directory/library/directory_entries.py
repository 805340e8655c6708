# SPDX-License-Identifier: Apache-2.0
"""Ensure that entries of a directory server exist with given attributes, and report exactly what
changed.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    import ldap
except ImportError:
    ldap = None
    LDAP_IMPORT_ERROR = traceback.format_exc()

DOCUMENTATION = r"""
module: directory_entries
short_description: Entries of a directory server
description:
  - Works through a list of entries in order, over one connection, as the local root user.
  - Attributes that are not named are left alone. Nothing is ever deleted.
  - Without a server to ask, check mode reports a change.
options:
  uri:
    description: Address of the server's local socket.
    type: str
    required: true
  entries:
    description: Entries in the order in which they are made, parents first.
    type: list
    elements: dict
    required: true
    suboptions:
      dn:
        description: Name of the entry.
        type: str
        required: true
      attributes:
        description:
          - Values the entry must have. An empty list removes the attribute.
          - Object classes and schema definitions are a minimum, everything else is exact.
        type: dict
        default: {}
      initial:
        description: Values an entry gets when it is made, and may change later.
        type: dict
        default: {}
      password:
        description: Password with which the entry must be able to log in.
        type: str
      keep_passwords:
        description: Whether it may have others beside it, as long as those who use them are told of the new one.
        type: bool
        default: false
  unsettled:
    description:
      - A file that is made before the first change. As long as it is there, a call says that something changed;
        handlers remove it when the server has begun anew. So a run that is killed in between does not leave it undone.
    type: path
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Ensure the branch of the people exists
  directory_entries:
    uri: ldapi://%2Frun%2Fslapd-gridstead.socket
    entries:
      - dn: ou=people,dc=example,dc=org
        attributes:
          objectClass: [top, organizationalUnit]
"""

RETURN = r"""
changes:
  description: Name of each changed entry and attribute, never a value.
  type: list
  elements: str
  returned: always
"""

# The server adds parents to object classes and words of its own to schema definitions.
MINIMUM = frozenset({"objectclass", "objectclasses", "attributetypes"})
SCHEMA = frozenset({"objectclasses", "attributetypes"})
OID = re.compile(r"^\(\s*([0-9.]+)\s")

Attributes = dict[str, list[str]]


def to_values(value: object) -> list[str]:
    """Return an attribute's values as a list of text: a scalar becomes a list of one."""
    return [str(item) for item in (value if isinstance(value, list) else [value])]


def identity(attribute: str, value: str) -> str:
    """Return what two equal values of an attribute have in common.

    Schema definitions are equal when their object identifiers are, object classes in any case.
    """
    if attribute.lower() in SCHEMA:
        match = OID.match(value)
        return match.group(1) if match else value
    return value.lower() if attribute.lower() == "objectclass" else value


def missing(attribute: str, current: list[str], wanted: list[str]) -> list[str]:
    """Return the wanted values that are not among the current ones, in the order given."""
    known = {identity(attribute, value) for value in current}
    return [value for value in wanted if identity(attribute, value) not in known]


def plan_modifications(current: Attributes, wanted: Attributes) -> list[tuple[str, str, list[str]]]:
    """Return the changes that lead from the current to the wanted attributes.

    Args:
        current: The entry's attributes, names in lower case.
        wanted: The attributes that are asked for.

    Returns:
        Triples of operation ("add" or "replace"), attribute and values, in the order of ``wanted``.
        Empty when nothing has to change. "replace" without values removes the attribute.
    """
    changes = []
    for attribute, values in wanted.items():
        present = current.get(attribute.lower(), [])
        absent = missing(attribute, present, values)
        if attribute.lower() in MINIMUM:
            if absent:
                changes.append(("add", attribute, absent))
        elif absent or len(present) != len(values):
            changes.append(("replace", attribute, values))
    return changes


class Directory:
    """A connection to the directory as its manager."""

    def __init__(self, uri: str, note: Path | None = None) -> None:
        self._uri = uri
        self._note = note
        self._connection = ldap.initialize(uri)
        self._connection.sasl_non_interactive_bind_s("EXTERNAL")

    def read(self, dn: str, names: list[str]) -> Attributes | None:
        """Return the named attributes, names in lower case, or None if there is no such entry."""
        try:
            found = self._connection.search_s(
                dn, ldap.SCOPE_BASE, "(objectClass=*)", [*names, "objectClass"]
            )
        except ldap.NO_SUCH_OBJECT:
            return None
        return {
            name.lower(): [value.decode() for value in values]
            for name, values in found[0][1].items()
        }

    def add(self, dn: str, attributes: Attributes) -> None:
        """The entry exists with these attributes."""
        self._note_change()
        self._connection.add_s(
            dn, [(name, encode(values)) for name, values in attributes.items() if values]
        )

    def modify(self, dn: str, changes: list[tuple[str, str, list[str]]]) -> None:
        """The entry has the changes that `plan_modifications` found."""
        self._note_change()
        operations = {"add": ldap.MOD_ADD, "replace": ldap.MOD_REPLACE}
        self._connection.modify_s(
            dn, [(operations[how], name, encode(values) or None) for how, name, values in changes]
        )

    def _note_change(self) -> None:
        if self._note:
            self._note.parent.mkdir(parents=True, exist_ok=True)
            self._note.touch()

    def password_count(self, dn: str) -> int:
        """Return with how many passwords the entry can log in."""
        return len((self.read(dn, ["userPassword"]) or {}).get("userpassword", []))

    def accepts(self, dn: str, password: str) -> bool:
        """Return whether the entry can log in with the password."""
        connection = ldap.initialize(self._uri)
        try:
            connection.simple_bind_s(dn, password)
        except (ldap.INVALID_CREDENTIALS, ldap.NO_SUCH_OBJECT, ldap.INAPPROPRIATE_AUTH):
            return False
        finally:
            connection.unbind_s()
        return True


def encode(values: list[str]) -> list[bytes]:
    """Return values as they travel."""
    return [value.encode() for value in values]


def ensure(directory: Directory, entry: dict[str, Any], *, check: bool) -> list[str]:
    """One entry is as asked, unless ``check``; return what changed or would change."""
    dn, password = entry["dn"], entry["password"]
    wanted = {name: to_values(value) for name, value in entry["attributes"].items()}
    current = directory.read(dn, list(wanted))
    if current is None:
        initial = {name: to_values(value) for name, value in entry["initial"].items()}
        secret = {"userPassword": [password]} if password else {}
        if not check:
            directory.add(dn, {**wanted, **initial, **secret})
        return [dn]
    changes = plan_modifications(current, wanted)
    if password:
        changes += plan_password(directory, dn, password, keep=entry["keep_passwords"])
    if changes and not check:
        directory.modify(dn, changes)
    return [f"{dn}: {name}" for _, name, _ in changes]


def plan_password(
    directory: Directory, dn: str, password: str, *, keep: bool
) -> list[tuple[str, str, list[str]]]:
    """Return the change after which the entry logs in with the password, and with no other unless
    ``keep``.
    """
    if not directory.accepts(dn, password):
        return [("add" if keep else "replace", "userPassword", [password])]
    if not keep and directory.password_count(dn) > 1:
        return [("replace", "userPassword", [password])]
    return []


def run(module: AnsibleModule) -> None:
    """Work through the entries and leave the module with its result."""
    changes: list[str] = []
    dn = "the connection"
    note = Path(module.params["unsettled"]) if module.params["unsettled"] else None
    try:
        directory = Directory(module.params["uri"], note)
        for entry in module.params["entries"]:
            dn = entry["dn"]
            changes += ensure(directory, entry, check=module.check_mode)
    except ldap.SERVER_DOWN:
        if module.check_mode:
            module.exit_json(changed=True, changes=changes)
        module.fail_json(
            msg=f"could not reach the directory at {module.params['uri']}", changes=changes
        )
    except ldap.LDAPError as error:
        module.fail_json(
            msg=f"could not ensure {dn}: {error.args[0] if error.args else error}", changes=changes
        )
    module.exit_json(changed=bool(changes) or (note is not None and note.exists()), changes=changes)


def main() -> None:
    """Entry point of the module."""
    entry = {
        "dn": {"type": "str", "required": True},
        "attributes": {"type": "dict", "default": {}},
        "initial": {"type": "dict", "default": {}},
        "password": {"type": "str", "no_log": True},
        "keep_passwords": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={
            "uri": {"type": "str", "required": True},
            "entries": {"type": "list", "elements": "dict", "required": True, "options": entry},
            "unsettled": {"type": "path"},
        },
        supports_check_mode=True,
    )
    if ldap is None:
        if module.check_mode:
            module.exit_json(changed=True, changes=[])
        module.fail_json(msg=missing_required_lib("python-ldap"), exception=LDAP_IMPORT_ERROR)
    run(module)


if __name__ == "__main__":
    main()
