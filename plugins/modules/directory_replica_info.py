# SPDX-License-Identifier: Apache-2.0
"""Reads the replication state of a directory server and compares it with another server."""

from __future__ import annotations

import hashlib
import json
import re
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
module: directory_replica_info
short_description: Read the replication state of a directory server
description:
  - Changes nothing. With O(covers), fails if changes or entries of another supplier do not arrive
    in time.
  - If the other supplier lost the record of a change, the entry of this change never arrives. Other
    changes may still arrive.
  - In check mode, if the server does not run and O(covers) is not set, returns nothing.
options:
  uri: {type: str, required: true, description: URI of the server's local socket.}
  suffix: {type: str, required: true, description: Root of the tree.}
  numbers: {type: str, required: true, description: Entry with the uid of the next user.}
  names:
    type: bool
    default: false
    description: Whether to return the names and uids of all entries.
  covers: {type: dict, description: Result of this module on another supplier.}
  demand:
    type: bool
    default: true
    description: Whether to fail if changes or entries are missing. RV(looks) has the result in any
      case.
  wait_s: {type: int, default: 10, description: Seconds to wait for changes.}
  retry_s:
    type: int
    default: 0
    description: Seconds for which a supplier may fail to send its changes.
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Read the state of the server
  gridstead.site.directory_replica_info:
    uri: ldapi://%2Frun%2Fslapd-gridstead.socket
    suffix: dc=example,dc=org
    numbers: cn=uid numbers,cn=Distributed Numeric Assignment Plugin,cn=plugins,cn=config
"""

RETURN = r"""
replica:
  description:
    - C(id) is the id of the supplier, or 0 if the server is not a supplier. C(generation) is the
      origin of the data. C(csns) has the last change that the server received from each supplier.
      C(next) is the next uid, or 0 if there is none. C(stuck) is whether the server repeatedly
      fails to send its changes. C(digest) is equal for suppliers whose entries have the same names.
    - With O(names), C(names) has the names of all entries and C(numbers) the uids of users. If
      O(covers) has C(names), C(lacks) has the names that this supplier never had, once all changes
      have arrived.
  type: dict
  returned: if the server runs
looks:
  type: list
  returned: with covers
  description: The check, in the format of M(gridstead.site.inspection).
"""

# A tombstone in which suppliers store their replica update vector (RUV).
VECTOR_FILTER = "(&(objectClass=nsTombstone)(nsUniqueId=ffffffff-ffffffff-ffffffff-ffffffff))"
# The first value of an RUV: ``{replicageneration} GENERATION``.
GENERATION = re.compile(r"\{replicageneration\} (\S+)")
# The other values: ``{replica NUMBER ldap://HOST:PORT} FIRST_CSN LAST_CSN``.
ELEMENT = re.compile(r"\{replica (\d+)[^}]*\} \S+ (\S+)")
# The names of temporary entries that suppliers create for themselves start with this text.
KEEP_ALIVE = "cn=repl keep alive"
MAPPING = "cn=mapping tree,cn=config"
STATUS = "nsds5replicaLastUpdateStatusJSON"
# In the status of a replication agreement, this code means that the server could not send a change
# and will try again. A server that was killed within 30 s after a change tries forever. Replication
# must continue from the last change that the other supplier has, but the new changelog of the
# killed server does not contain that change.
RETRYING = "18"
POLL_INTERVAL_S = 0.5
CHECK = "it has the changes of the other supplier"
HINT = (
    "Run `dsconf INSTANCE repl-agmt list --suffix SUFFIX` on both suppliers: it prints why they do"
    " not replicate. docs/howto/directory.md describes what to do."
)
MISSING_ENTRIES_HINT = (
    "Run site.yml: it sends the missing entries if this supplier then loses no other entry."
)


def parse_vector(values: list[str]) -> dict[str, Any]:
    """Return ``generation`` and ``csns`` from the values of a supplier's replica update vector."""
    generation, csns = "", {}
    for value in values:
        match = GENERATION.match(value)
        if match and not generation:
            generation = match[1]
        element = ELEMENT.match(value)
        if element:
            csns[element[1]] = element[2]
    return {"generation": generation, "csns": csns}


def replication_fault(mine: dict[str, Any], other: dict[str, Any]) -> str:
    """Return what a supplier lacks of the state of another supplier; empty if it lacks nothing.

    Args:
        mine: The state of the supplier.
        other: An earlier state of the other supplier, or an empty dictionary.
    """
    if not other:
        return ""
    if mine["generation"] != other["generation"]:
        return "their data has different origins, so they do not replicate"
    late_suppliers = []
    for number, csn in other["csns"].items():
        own_csn = mine["csns"].get(number, "")
        if own_csn < csn:  # CSNs are ordered as text
            late_suppliers.append(number)
    if late_suppliers:
        return f"changes made on supplier {', '.join(sorted(late_suppliers))} have not arrived"
    missing_entries = mine.get("lacks", [])
    if not missing_entries:
        return ""
    return (
        f"{len(missing_entries)} entries of the other supplier never arrived, for example"
        f" {missing_entries[0]}"
    )


def never_received(mine: list[str], other: list[str], deleted: list[str]) -> list[str]:
    """Return the sorted names in ``other`` that are neither in ``mine`` nor in ``deleted``."""
    return sorted({*other} - {*mine} - {*deleted})


def is_stuck(statuses: list[str]) -> bool:
    """Return whether a supplier repeatedly fails to send a change.

    Args:
        statuses: The status of each replication agreement as JSON text.
    """
    for text in statuses:
        status = json.loads(text)
        if status.get("repl_rc") == RETRYING:
            return True
    return False


def search(
    connection: Any,  # noqa: ANN401 - python-ldap has no types
    base: str,
    scope: int,
    pattern: str,
    names: list[str],
) -> list[tuple[str, dict[str, Any]]]:
    """Return entries. Names and DNs are in lower case. Empty if the base does not exist."""
    try:
        entries = connection.search_s(base, scope, pattern, names)
    except ldap.NO_SUCH_OBJECT:
        return []
    decoded_entries = []
    for dn, entry in entries:
        attributes = {}
        for name, values in entry.items():
            attributes[name.lower()] = [value.decode(errors="replace") for value in values]
        decoded_entries.append((dn.lower(), attributes))
    return decoded_entries


def values_of(entries: list[tuple[str, dict[str, Any]]], name: str) -> list[str]:
    """Return the values of an attribute in all entries, in order."""
    values: list[str] = []
    for _, entry in entries:
        values += entry.get(name.lower(), [])
    return values


def names_of(entries: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the sorted DNs of the entries, without temporary entries of the suppliers."""
    names = []
    for dn, _ in entries:
        is_temporary = dn.startswith(KEEP_ALIVE)
        if not is_temporary:
            names.append(dn)
    return sorted(names)


def read(params: dict[str, Any]) -> dict[str, Any]:
    """Return the present state of the server."""
    connection, suffix = ldap.initialize(params["uri"]), params["suffix"]
    connection.sasl_non_interactive_bind_s("EXTERNAL")
    replica_filter = f"(&(objectClass=nsds5Replica)(nsDS5ReplicaRoot={suffix}))"
    replicas = search(connection, MAPPING, ldap.SCOPE_SUBTREE, replica_filter, ["nsDS5ReplicaId"])
    agreement_filter = f"(&(objectClass=nsds5replicationagreement)(nsDS5ReplicaRoot={suffix}))"
    agreements = search(connection, MAPPING, ldap.SCOPE_SUBTREE, agreement_filter, [STATUS])
    vectors = search(connection, suffix, ldap.SCOPE_SUBTREE, VECTOR_FILTER, ["nsds50ruv"])
    any_entry = "(objectClass=*)"
    counters = search(connection, params["numbers"], ldap.SCOPE_BASE, any_entry, ["dnaNextValue"])
    entries = search(connection, suffix, ldap.SCOPE_SUBTREE, any_entry, ["uidNumber"])
    names = names_of(entries)
    state = {
        "id": int(next(iter(values_of(replicas, "nsDS5ReplicaId")), 0)),
        **parse_vector(values_of(vectors[:1], "nsds50ruv")),
        "stuck": is_stuck(values_of(agreements, STATUS)),
        "next": int(next(iter(values_of(counters, "dnaNextValue")), 0)),
        "digest": hashlib.sha256("\n".join(names).encode()).hexdigest(),
    }
    other_state = params["covers"] or {}
    if "names" in other_state and not replication_fault(state, other_state):
        tombstone_filter = "(objectClass=nsTombstone)"
        tombstones = search(
            connection, suffix, ldap.SCOPE_SUBTREE, tombstone_filter, ["nscpEntryDN"]
        )
        deleted_dns = list(map(str.lower, values_of(tombstones, "nscpEntryDN")))
        state["lacks"] = never_received(names, other_state["names"], deleted_dns)
    if params["names"]:
        state["names"] = names
        state["numbers"] = sorted(map(int, values_of(entries, "uidNumber")))
    connection.unbind_s()
    return state


def read_or_fail(module: AnsibleModule) -> dict[str, Any]:
    """Return the present state of the server. An error ends the module."""
    uri = module.params["uri"]
    try:
        return read(module.params)
    except ldap.SERVER_DOWN:
        if module.check_mode and module.params["covers"] is None:
            module.exit_json(changed=False)
        module.fail_json(msg=f"could not reach the directory at {uri}")
    except ldap.LDAPError as error:
        detail = error.args[0] if error.args else error
        module.fail_json(msg=f"could not read the directory at {uri}: {detail}")
    raise AssertionError  # the module has ended


def run(module: AnsibleModule) -> None:
    """Read the state until no change is missing or the time is over. Then end the module."""
    params = module.params
    start_s = time.monotonic()
    while True:
        state = read_or_fail(module)
        fault = replication_fault(state, params["covers"] or {})
        elapsed_s = time.monotonic() - start_s
        may_arrive = fault and elapsed_s < params["wait_s"]
        may_recover = state["stuck"] and elapsed_s < params["retry_s"]
        if not may_arrive and not may_recover:
            break
        time.sleep(POLL_INTERVAL_S)
    result: dict[str, Any] = {"replica": state}
    if params["covers"] is not None:
        hint = MISSING_ENTRIES_HINT if state.get("lacks") else HINT
        check = {"what": CHECK, "ok": not fault, "seen": fault, "who": "operator"}
        result["looks"] = [check | {"hint": hint if fault else ""}]
    if fault and params["demand"]:
        module.fail_json(msg=f"{CHECK}: {fault}", **result)
    module.exit_json(changed=False, **result)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "uri": {"type": "str", "required": True},
            "suffix": {"type": "str", "required": True},
            "numbers": {"type": "str", "required": True},
            "names": {"type": "bool", "default": False},
            "covers": {"type": "dict"},
            "demand": {"type": "bool", "default": True},
            "wait_s": {"type": "int", "default": 10},
            "retry_s": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    if ldap is None:
        module.fail_json(msg=missing_required_lib("python-ldap"), exception=LDAP_IMPORT_ERROR)
    run(module)


if __name__ == "__main__":
    main()
