# SPDX-License-Identifier: Apache-2.0
"""Ensure to which servers a supplier of a directory sends its changes, and give one all that it
has.
"""

from __future__ import annotations

import hashlib
import time
import traceback
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    import ldap
except ImportError:
    ldap = None
    LDAP_IMPORT_ERROR = traceback.format_exc()

DOCUMENTATION = r"""
module: directory_agreements
short_description: Agreements of a supplier of a directory
description:
  - An agreement leads to each of C(peers), over TLS with a password, and to nobody else.
  - With C(initialise) all peers get what this server has, in place of what they have.
options:
  uri: {type: str, required: true, description: Address of the server's local socket.}
  suffix: {type: str, required: true, description: Root of the tree.}
  peers: {type: list, elements: str, required: true, description: Names of the hosts that get the changes.}
  bind_dn: {type: str, required: true, description: Account under which the peers take changes.}
  password: {type: str, default: '', description: Its password.}
  initialise: {type: bool, default: false, description: Whether peers get everything anew.}
  wait_s: {type: int, default: 600, description: How long that may take.}
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Ensure that the second server hears of changes
  directory_agreements:
    uri: ldapi://%2Frun%2Fslapd-gridstead.socket
    suffix: dc=example,dc=org
    peers: [ldap2]
    bind_dn: cn=replication,cn=config
    password: "{{ replication_password }}"
"""

RETURN = r"""
changes: {type: list, returned: always, description: What changed of which peer, never a value.}
"""

PORT = "636"
PAUSE_S = 0.5
CLASS = "nsds5replicationagreement"
# As the server words it when all went well.
DONE = "Error (0)"

Attributes = dict[str, list[str]]


def fingerprint(dn: str, password: str) -> str:
    """Return a text that tells one password from another. The server keeps the password where
    nobody can compare it.
    """
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), dn.encode(), 100_000)
    return f"password {digest.hex()[:16]}"


def agreement(asked: dict[str, Any], dn: str, peer: str) -> dict[str, str]:
    """Return the attributes of the agreement with a peer, but for its class and its password."""
    return {
        "cn": peer,
        "nsDS5ReplicaRoot": asked["suffix"],
        "nsDS5ReplicaHost": peer,
        "nsDS5ReplicaPort": PORT,
        "nsDS5ReplicaTransportInfo": "LDAPS",
        "nsDS5ReplicaBindMethod": "SIMPLE",
        "nsDS5ReplicaBindDN": asked["bind_dn"],
        "description": fingerprint(dn, asked["password"]),
    }


def differing(current: Attributes, wanted: dict[str, str]) -> dict[str, str]:
    """Return the wanted attributes that an agreement has not, or has otherwise."""
    return {name: value for name, value in wanted.items() if current.get(name.lower()) != [value]}


class Supplier:
    """A connection to the server as its manager."""

    def __init__(self, uri: str, suffix: str) -> None:
        self._connection = ldap.initialize(uri)
        self._connection.sasl_non_interactive_bind_s("EXTERNAL")
        self._root = f"(nsDS5ReplicaRoot={suffix})"

    def replica(self) -> str | None:
        """Return the entry below which agreements are, or None if the server is no supplier."""
        return next(iter(self._search(f"(&(objectClass=nsds5Replica){self._root})")), None)

    def agreements(self) -> dict[str, Attributes]:
        """Return the agreements that there are, by their entries."""
        return self._search(f"(&(objectClass={CLASS}){self._root})")

    def add(self, dn: str, attributes: dict[str, str]) -> None:
        """The agreement exists."""
        given = [(name, [value.encode()]) for name, value in attributes.items()]
        self._connection.add_s(dn, [("objectClass", [b"top", CLASS.encode()]), *given])

    def modify(self, dn: str, attributes: dict[str, str]) -> None:
        """The agreement has these attributes."""
        changes = [(ldap.MOD_REPLACE, name, [value.encode()]) for name, value in attributes.items()]
        self._connection.modify_s(dn, changes)

    def remove(self, dn: str) -> None:
        """The agreement is gone."""
        self._connection.delete_s(dn)

    def _search(self, pattern: str) -> dict[str, Attributes]:
        found = self._connection.search_s("cn=mapping tree,cn=config", ldap.SCOPE_SUBTREE, pattern)
        return {
            dn: {
                name.lower(): [one.decode(errors="replace") for one in values]
                for name, values in entry.items()
            }
            for dn, entry in found
        }


def ensure(supplier: Supplier, asked: dict[str, Any], *, check: bool) -> list[str]:
    """Agreements lead to the peers and to nobody else, unless ``check``; return what changed or
    would change.
    """
    replica, changes = supplier.replica(), []
    there = {entry["cn"][0]: (dn, entry) for dn, entry in supplier.agreements().items()}
    for peer in asked["peers"]:
        dn = f"cn={peer},{replica}"
        wanted = agreement(asked, dn, peer)
        _, current = there.pop(peer, (dn, {}))
        new = differing(current, wanted)
        if "description" in new:
            new["nsDS5ReplicaCredentials"] = asked["password"]
        if new:
            changes.append(f"{peer}: {', '.join(new) if current else 'new'}")
        if new and not check:
            (supplier.modify if current else supplier.add)(dn, new)
    for peer, (dn, _) in there.items():
        changes.append(f"{peer}: none any more")
        if not check:
            supplier.remove(dn)
    return changes


def initialise(supplier: Supplier, peers: list[str], wait_s: float) -> str:
    """All peers have what this server has; return why one has not, or an empty text."""
    chosen = {dn for dn, entry in supplier.agreements().items() if entry["cn"][0] in peers}
    for dn in chosen:
        supplier.modify(dn, {"nsds5BeginReplicaRefresh": "start"})
    end = time.monotonic() + wait_s
    while True:
        now = {dn: entry for dn, entry in supplier.agreements().items() if dn in chosen}
        if not any("nsds5beginreplicarefresh" in entry for entry in now.values()):
            said = {
                entry["cn"][0]: entry.get("nsds5replicalastinitstatus", [""])[0]
                for entry in now.values()
            }
            return "; ".join(
                f"{peer}: {status}" for peer, status in said.items() if not status.startswith(DONE)
            )
        if time.monotonic() >= end:
            return f"no end within {wait_s} s"
        time.sleep(PAUSE_S)


def run(module: AnsibleModule) -> None:
    """Make the agreements, use them if asked, and leave the module with its result."""
    asked, changes = module.params, []
    try:
        supplier = Supplier(asked["uri"], asked["suffix"])
        changes += ensure(supplier, asked, check=module.check_mode)
        if asked["initialise"]:
            changes += [f"{peer}: all entries" for peer in asked["peers"]]
            wrong = (
                "" if module.check_mode else initialise(supplier, asked["peers"], asked["wait_s"])
            )
            if wrong:
                module.fail_json(
                    msg=f"could not give all entries to the other supplier: {wrong}",
                    changes=changes,
                )
    except ldap.LDAPError as error:
        told = error.args[0] if error.args else error
        module.fail_json(msg=f"could not ensure the agreements: {told}", changes=changes)
    module.exit_json(changed=bool(changes), changes=changes)


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "uri": {"type": "str", "required": True},
            "suffix": {"type": "str", "required": True},
            "peers": {"type": "list", "elements": "str", "required": True},
            "bind_dn": {"type": "str", "required": True},
            "password": {"type": "str", "default": "", "no_log": True},
            "initialise": {"type": "bool", "default": False},
            "wait_s": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    if ldap is None:
        module.fail_json(msg=missing_required_lib("python-ldap"), exception=LDAP_IMPORT_ERROR)
    run(module)


if __name__ == "__main__":
    main()
