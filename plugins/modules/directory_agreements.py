# SPDX-License-Identifier: Apache-2.0
"""Manages the replication agreements of a supplier, and initialises other suppliers."""

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
short_description: Manage the replication agreements of a directory server
description:
  - Creates an agreement with each of O(peers), over TLS with a password, and removes all other
    agreements.
  - With O(initialise), all peers replace their entries by the entries of this server.
options:
  uri: {type: str, required: true, description: URI of the server's local socket.}
  suffix: {type: str, required: true, description: Root of the tree.}
  peers: {type: list, elements: str, required: true, description: Hosts that receive the changes.}
  bind_dn:
    type: str
    required: true
    description: Account with which the server binds to its peers.
  password: {type: str, default: '', description: Password of the account.}
  initialise: {type: bool, default: false, description: Whether to initialise all peers.}
  wait_s: {type: int, default: 600, description: Seconds to wait for the initialisation.}
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Send changes to the second server
  gridstead.site.directory_agreements:
    uri: ldapi://%2Frun%2Fslapd-gridstead.socket
    suffix: dc=example,dc=org
    peers: [ldap2]
    bind_dn: cn=replication,cn=config
    password: "{{ replication_password }}"
"""

RETURN = r"""
changes: {type: list, returned: always, description: "Peers and changed attributes, never a value."}
"""

PORT = "636"
POLL_INTERVAL_S = 0.5
CLASS = "nsds5replicationagreement"
# The start of the status text after a successful initialisation.
SUCCESS = "Error (0)"

Attributes = dict[str, list[str]]


def fingerprint(dn: str, password: str) -> str:
    """Return a text that is different for each password.

    The server encrypts the stored password, so the password itself cannot be compared.
    """
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), dn.encode(), 100_000)
    return f"password {digest.hex()[:16]}"


def agreement(params: dict[str, Any], dn: str, peer: str) -> dict[str, str]:
    """Return the attributes of the agreement with a peer, except its class and password."""
    return {
        "cn": peer,
        "nsDS5ReplicaRoot": params["suffix"],
        "nsDS5ReplicaHost": peer,
        "nsDS5ReplicaPort": PORT,
        "nsDS5ReplicaTransportInfo": "LDAPS",
        "nsDS5ReplicaBindMethod": "SIMPLE",
        "nsDS5ReplicaBindDN": params["bind_dn"],
        "description": fingerprint(dn, params["password"]),
    }


def differences(current: Attributes, expected: dict[str, str]) -> dict[str, str]:
    """Return the expected attributes that are missing or have another value in an agreement."""
    return {name: value for name, value in expected.items() if current.get(name.lower()) != [value]}


class Supplier:
    """A connection to the directory server, with the rights of its manager."""

    def __init__(self, uri: str, suffix: str) -> None:
        self._connection = ldap.initialize(uri)
        self._connection.sasl_non_interactive_bind_s("EXTERNAL")
        self._root = f"(nsDS5ReplicaRoot={suffix})"

    def replica(self) -> str | None:
        """Return the DN below which agreements are stored; None if the server is not a supplier."""
        return next(iter(self._search(f"(&(objectClass=nsds5Replica){self._root})")), None)

    def agreements(self) -> dict[str, Attributes]:
        """Return the present agreements by DN."""
        return self._search(f"(&(objectClass={CLASS}){self._root})")

    def add(self, dn: str, attributes: dict[str, str]) -> None:
        """Create an agreement."""
        encoded_attributes = [("objectClass", [b"top", CLASS.encode()])]
        for name, value in attributes.items():
            values = [value.encode()]
            encoded_attributes.append((name, values))
        self._connection.add_s(dn, encoded_attributes)

    def modify(self, dn: str, attributes: dict[str, str]) -> None:
        """Replace attributes of an agreement."""
        changes = []
        for name, value in attributes.items():
            values = [value.encode()]
            changes.append((ldap.MOD_REPLACE, name, values))
        self._connection.modify_s(dn, changes)

    def remove(self, dn: str) -> None:
        """Delete an agreement."""
        self._connection.delete_s(dn)

    def _search(self, pattern: str) -> dict[str, Attributes]:
        entries = self._connection.search_s(
            "cn=mapping tree,cn=config", ldap.SCOPE_SUBTREE, pattern
        )
        by_dn = {}
        for dn, entry in entries:
            by_dn[dn] = decoded(entry)
        return by_dn


def decoded(entry: dict[str, list[bytes]]) -> Attributes:
    """Return the attributes of an entry as text. The names are in lower case."""
    attributes = {}
    for name, values in entry.items():
        attributes[name.lower()] = [value.decode(errors="replace") for value in values]
    return attributes


def ensure(supplier: Supplier, params: dict[str, Any], *, check: bool) -> list[str]:
    """Create, change and remove agreements until they match the peers.

    Args:
        supplier: The connection to the server.
        params: The parameters of the module.
        check: Whether to change nothing.

    Returns:
        What changed or would change.
    """
    replica, changes = supplier.replica(), []
    remaining_agreements = {}
    for dn, entry in supplier.agreements().items():
        remaining_agreements[entry["cn"][0]] = (dn, entry)
    for peer in params["peers"]:
        dn = f"cn={peer},{replica}"
        _, current_attributes = remaining_agreements.pop(peer, (dn, {}))
        different_attributes = differences(current_attributes, agreement(params, dn, peer))
        if "description" in different_attributes:
            different_attributes["nsDS5ReplicaCredentials"] = params["password"]
        if not different_attributes:
            continue
        changes.append(
            f"{peer}: {', '.join(different_attributes) if current_attributes else 'new'}"
        )
        if not check:
            write = supplier.modify if current_attributes else supplier.add
            write(dn, different_attributes)
    for peer, (dn, _) in remaining_agreements.items():
        changes.append(f"{peer}: removed")
        if not check:
            supplier.remove(dn)
    return changes


def initialise(supplier: Supplier, peers: list[str], wait_s: float) -> str:
    """Send all entries to the peers; return why that failed, or an empty text."""
    initialised_dns = set()
    for dn, entry in supplier.agreements().items():
        if entry["cn"][0] in peers:
            initialised_dns.add(dn)
            supplier.modify(dn, {"nsds5BeginReplicaRefresh": "start"})
    deadline = time.monotonic() + wait_s
    while True:
        agreements = supplier.agreements()
        entries = [agreements[dn] for dn in agreements if dn in initialised_dns]
        if not any("nsds5beginreplicarefresh" in entry for entry in entries):
            return "; ".join(failures(entries))
        if time.monotonic() >= deadline:
            return f"not finished within {wait_s} s"
        time.sleep(POLL_INTERVAL_S)


def failures(agreements: list[Attributes]) -> list[str]:
    """Return the status of each initialisation that failed, with its peer."""
    statuses = []
    for entry in agreements:
        status = entry.get("nsds5replicalastinitstatus", [""])[0]
        if not status.startswith(SUCCESS):
            statuses.append(f"{entry['cn'][0]}: {status}")
    return statuses


def run(module: AnsibleModule) -> None:
    """Manage the agreements, initialise the peers if requested, and end the module."""
    params, changes = module.params, []
    try:
        supplier = Supplier(params["uri"], params["suffix"])
        changes += ensure(supplier, params, check=module.check_mode)
        if params["initialise"]:
            changes += [f"{peer}: all entries" for peer in params["peers"]]
            error_text = ""
            if not module.check_mode:
                error_text = initialise(supplier, params["peers"], params["wait_s"])
            if error_text:
                message = f"could not send all entries to the other supplier: {error_text}"
                module.fail_json(msg=message, changes=changes)
    except ldap.LDAPError as error:
        detail = error.args[0] if error.args else error
        module.fail_json(msg=f"could not change the agreements: {detail}", changes=changes)
    module.exit_json(changed=bool(changes), changes=changes)


def main() -> None:
    """Run the module."""
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
