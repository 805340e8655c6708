# SPDX-License-Identifier: Apache-2.0
"""Creates and changes entries of a directory server, and returns exactly what changed."""

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
short_description: Create and change entries of a directory server
description:
  - Creates or changes the entries in order, over one connection, as the local root user.
  - Changes only listed attributes, and never deletes an entry.
  - In check mode without a running server, reports a change.
options:
  uri:
    description: URI of the server's local socket.
    type: str
    required: true
  entries:
    description: Entries in the order in which they are created, parents first.
    type: list
    elements: dict
    required: true
    suboptions:
      dn:
        description: DN of the entry.
        type: str
        required: true
      attributes:
        description:
          - Values of the entry. An empty list removes the attribute.
          - Object classes and schema definitions are added to those of the entry; other attributes
            are replaced.
        type: dict
        default: {}
      initial:
        description: Values for a new entry. Later runs do not change them.
        type: dict
        default: {}
      password:
        description: Password with which the entry must be able to bind.
        type: str
      keep_passwords:
        description: Whether the entry keeps its other passwords, because clients still use them.
        type: bool
        default: false
  pending_changes_file:
    description:
      - A file that the module creates before the first change. While the file exists, the module
        reports a change. A handler restarts the server and removes the file. Therefore the run
        after an interrupted run restarts the server.
    type: path
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Create the branch of the people
  gridstead.site.directory_entries:
    uri: ldapi://%2Frun%2Fslapd-gridstead.socket
    entries:
      - dn: ou=people,dc=example,dc=org
        attributes:
          objectClass: [top, organizationalUnit]
"""

RETURN = r"""
changes:
  description: DN of each changed entry and name of each changed attribute, never a value.
  type: list
  elements: str
  returned: always
"""

# The entry may have more values of these attributes than the task lists: the server adds parents to
# object classes, and its own keywords to schema definitions.
EXTENSIBLE = frozenset({"objectclass", "objectclasses", "attributetypes"})
SCHEMA_ATTRIBUTES = frozenset({"objectclasses", "attributetypes"})
# The object identifier in a schema definition: ``( 1.3.6.1.4.1.1 NAME ...``.
OID = re.compile(r"^\(\s*([0-9.]+)\s")

Attributes = dict[str, list[str]]


def to_values(value: object) -> list[str]:
    """Return an attribute's values as a list of texts; a scalar becomes a list of one."""
    return list(map(str, value)) if isinstance(value, list) else [str(value)]


def to_attributes(table: dict[str, Any]) -> Attributes:
    """Return attributes of a task with their values as lists of texts."""
    attributes = {}
    for name, value in table.items():
        attributes[name] = to_values(value)
    return attributes


def comparison_key(attribute: str, value: str) -> str:
    """Return a key that is the same for equal values of an attribute.

    Schema definitions are equal if their object identifiers are equal. Object classes are not
    case-sensitive.
    """
    if attribute.lower() in SCHEMA_ATTRIBUTES:
        match = OID.match(value)
        return match.group(1) if match else value
    return value.lower() if attribute.lower() == "objectclass" else value


def missing_from(attribute: str, current: list[str], expected: list[str]) -> list[str]:
    """Return the expected values that are not among the current values, in order."""
    current_keys = {comparison_key(attribute, value) for value in current}
    return [value for value in expected if comparison_key(attribute, value) not in current_keys]


def plan_modifications(
    current: Attributes, expected: Attributes
) -> list[tuple[str, str, list[str]]]:
    """Return the changes from the current to the expected attributes.

    Args:
        current: The entry's attributes, names in lower case.
        expected: The attributes that the entry must have.

    Returns:
        Triples of operation ("add" or "replace"), attribute and values, in the order of
        ``expected``. Empty if nothing must change. "replace" without values removes the attribute.
    """
    changes = []
    for attribute, values in expected.items():
        current_values = current.get(attribute.lower(), [])
        missing_values = missing_from(attribute, current_values, values)
        if attribute.lower() in EXTENSIBLE:
            if missing_values:
                changes.append(("add", attribute, missing_values))
        elif missing_values or len(current_values) != len(values):
            changes.append(("replace", attribute, values))
    return changes


class Directory:
    """A connection to the directory as its manager."""

    def __init__(self, uri: str, pending_changes_file: Path | None = None) -> None:
        self._uri = uri
        self._pending_changes_file = pending_changes_file
        self._connection = ldap.initialize(uri)
        self._connection.sasl_non_interactive_bind_s("EXTERNAL")

    def read(self, dn: str, names: list[str]) -> Attributes | None:
        """Return the named attributes, names in lower case; None if there is no such entry."""
        try:
            entries = self._connection.search_s(
                dn, ldap.SCOPE_BASE, "(objectClass=*)", [*names, "objectClass"]
            )
        except ldap.NO_SUCH_OBJECT:
            return None
        attributes = {}
        for name, values in entries[0][1].items():
            attributes[name.lower()] = [value.decode() for value in values]
        return attributes

    def add(self, dn: str, attributes: Attributes) -> None:
        """Create an entry."""
        self._create_pending_changes_file()
        encoded_attributes = []
        for name, values in attributes.items():
            encoded_values = encode(values)
            if encoded_values:
                encoded_attributes.append((name, encoded_values))
        self._connection.add_s(dn, encoded_attributes)

    def modify(self, dn: str, changes: list[tuple[str, str, list[str]]]) -> None:
        """Apply the changes of `plan_modifications` to an entry."""
        self._create_pending_changes_file()
        operations = {"add": ldap.MOD_ADD, "replace": ldap.MOD_REPLACE}
        encoded_attributes = []
        for operation, name, values in changes:
            encoded_values = encode(values) or None
            encoded_attributes.append((operations[operation], name, encoded_values))
        self._connection.modify_s(dn, encoded_attributes)

    def _create_pending_changes_file(self) -> None:
        if self._pending_changes_file:
            self._pending_changes_file.parent.mkdir(parents=True, exist_ok=True)
            self._pending_changes_file.touch()

    def password_count(self, dn: str) -> int:
        """Return the number of passwords of an entry."""
        attributes = self.read(dn, ["userPassword"]) or {}
        return len(attributes.get("userpassword", []))

    def accepts(self, dn: str, password: str) -> bool:
        """Return whether the entry can bind with the password."""
        connection = ldap.initialize(self._uri)
        try:
            connection.simple_bind_s(dn, password)
        except (ldap.INVALID_CREDENTIALS, ldap.NO_SUCH_OBJECT, ldap.INAPPROPRIATE_AUTH):
            return False
        finally:
            connection.unbind_s()
        return True


def encode(values: list[str]) -> list[bytes]:
    """Return the values in the encoding of LDAP."""
    return [value.encode() for value in values]


def ensure(directory: Directory, entry: dict[str, Any], *, check_mode: bool) -> list[str]:
    """Create or change one entry, unless in check mode; return what was or would be changed."""
    dn, password = entry["dn"], entry["password"]
    expected_attributes = to_attributes(entry["attributes"])
    current_attributes = directory.read(dn, list(expected_attributes))
    if current_attributes is None:
        initial_attributes = to_attributes(entry["initial"])
        password_attribute = {"userPassword": [password]} if password else {}
        if not check_mode:
            directory.add(dn, {**expected_attributes, **initial_attributes, **password_attribute})
        return [dn]
    changes = plan_modifications(current_attributes, expected_attributes)
    if password:
        changes += plan_password(directory, dn, password, keep=entry["keep_passwords"])
    if changes and not check_mode:
        directory.modify(dn, changes)
    return [f"{dn}: {name}" for _, name, _ in changes]


def plan_password(
    directory: Directory, dn: str, password: str, *, keep: bool
) -> list[tuple[str, str, list[str]]]:
    """Return the change after which the entry can bind with the password.

    If ``keep`` is false, the change removes all other passwords of the entry.
    """
    if not directory.accepts(dn, password):
        return [("add" if keep else "replace", "userPassword", [password])]
    if not keep and directory.password_count(dn) > 1:
        return [("replace", "userPassword", [password])]
    return []


def run(module: AnsibleModule) -> None:
    """Create or change the entries and end the module."""
    changes: list[str] = []
    dn = "the connection"
    path = module.params["pending_changes_file"]
    pending_changes_file = Path(path) if path else None
    try:
        directory = Directory(module.params["uri"], pending_changes_file)
        for entry in module.params["entries"]:
            dn = entry["dn"]
            changes += ensure(directory, entry, check_mode=module.check_mode)
    except ldap.SERVER_DOWN:
        if module.check_mode:
            module.exit_json(changed=True, changes=changes)
        module.fail_json(
            msg=f"could not reach the directory at {module.params['uri']}", changes=changes
        )
    except ldap.LDAPError as error:
        detail = error.args[0] if error.args else error
        module.fail_json(msg=f"could not change {dn}: {detail}", changes=changes)
    # The file exists if an earlier run changed an entry and was interrupted.
    is_restart_pending = pending_changes_file is not None and pending_changes_file.exists()
    module.exit_json(changed=bool(changes) or is_restart_pending, changes=changes)


def main() -> None:
    """Run the module."""
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
            "pending_changes_file": {"type": "path"},
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
