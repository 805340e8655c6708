# SPDX-License-Identifier: Apache-2.0
"""Reads the state of a directory server and compares it with another server."""

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
  - Changes nothing. With C(covers) it fails if changes or entries of another supplier do not arrive
    in time.
  - An entry never arrives if the other supplier forgot to send it. The rest of the replication may
    then work.
  - In check mode without a server it returns nothing.
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
    description: Whether to fail; otherwise C(lacks) has the result.
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
    - C(id) of the supplier, 0 if the server is not a supplier; C(generation) of its data; C(csns),
      the last change it has of each supplier; C(next) uid, 0 if there is none; C(stuck), whether
      it repeatedly fails to send its changes; C(digest), which is equal for suppliers with the
      same entries.
    - With C(names) also the C(names) of all entries and the uids of users as C(numbers). With
      C(names) in C(covers) also C(lacks), the names that are missing and were not deleted on this
      supplier, once all changes have arrived.
  type: dict
  returned: always
looks:
  type: list
  returned: with covers
  description: The check, in the form of module inspection.
"""

# A tombstone in which suppliers store their replica update vector (RUV).
VECTOR = "(&(objectClass=nsTombstone)(nsUniqueId=ffffffff-ffffffff-ffffffff-ffffffff))"
GENERATION = re.compile(r"\{replicageneration\} (\S+)")
ELEMENT = re.compile(r"\{replica (\d+)[^}]*\} \S+ (\S+)")
# Entries of the suppliers themselves, which appear and disappear.
OWN = "cn=repl keep alive"
MAPPING = "cn=mapping tree,cn=config"
STATUS = "nsds5replicaLastUpdateStatusJSON"
# The server's code for a change that it could not send and will send again. A server that was
# killed within 30 s after a change retries for ever: it starts a new changelog, without
# changes that the other supplier already has and expects to continue from.
TRIES_AGAIN = "18"
PAUSE_S = 0.5
WHAT = "it has the changes of the other supplier"
HINT = (
    "Run `dsconf INSTANCE repl-agmt list --suffix SUFFIX` on both suppliers: it prints why they do"
    " not replicate. docs/howto/directory.md describes what to do."
)
GIVE = "Run site.yml: it sends the missing entries if no entry is lost by that."


def vector(values: list[str]) -> dict[str, Any]:
    """Return the generation and the last changes of a supplier's vector; empty for no vector."""
    generation, csns = "", {}
    for value in values:
        match = GENERATION.match(value)
        if match and not generation:
            generation = match[1]
        element = ELEMENT.match(value)
        if element:
            csns[element[1]] = element[2]
    return {"generation": generation, "csns": csns}


def objection(mine: dict[str, Any], other: dict[str, Any]) -> str:
    """Return what a supplier lacks of an earlier state of another one; empty if nothing.

    CSNs sort as text.
    """
    if not other:
        return ""
    if mine["generation"] != other["generation"]:
        return "their data has different origins, so they do not replicate"
    late = []
    for number, csn in other["csns"].items():
        own_csn = mine["csns"].get(number, "")
        if own_csn < csn:
            late.append(number)
    if late:
        return f"changes made on supplier {', '.join(sorted(late))} have not arrived"
    lacks = mine.get("lacks", [])
    return (
        f"{len(lacks)} entries of the other never arrived, {lacks[0]} among them" if lacks else ""
    )


def lacking(mine: list[str], other: list[str], deleted: list[str]) -> list[str]:
    """Return the names that another supplier has and this supplier never had, sorted."""
    return sorted({*other} - {*mine} - {*deleted})


def stuck(statuses: list[str]) -> bool:
    """Return whether a supplier repeatedly fails to send a change, from the status texts."""
    return any(json.loads(status).get("repl_rc") == TRIES_AGAIN for status in statuses)


def search(
    connection: Any,  # noqa: ANN401 - python-ldap has no types
    base: str,
    scope: int,
    pattern: str,
    names: list[str],
) -> list[tuple[str, dict[str, Any]]]:
    """Return entries as text, names and DNs in lower case; empty if the base does not exist."""
    try:
        entries = connection.search_s(base, scope, pattern, names)
    except ldap.NO_SUCH_OBJECT:
        return []
    decoded = []
    for dn, entry in entries:
        attributes = {}
        for name, values in entry.items():
            attributes[name.lower()] = [value.decode(errors="replace") for value in values]
        decoded.append((dn.lower(), attributes))
    return decoded


def values_of(entries: list[tuple[str, dict[str, Any]]], name: str) -> list[str]:
    """Return the values of an attribute in all entries, in order."""
    values: list[str] = []
    for _, entry in entries:
        values += entry.get(name.lower(), [])
    return values


def names_of(entries: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the DNs of the entries, sorted, without the entries of the suppliers themselves."""
    names = []
    for dn, _ in entries:
        is_own = dn.startswith(OWN)
        if not is_own:
            names.append(dn)
    return sorted(names)


def read(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the present state of the server."""
    connection, suffix = ldap.initialize(asked["uri"]), asked["suffix"]
    connection.sasl_non_interactive_bind_s("EXTERNAL")
    replica = f"(&(objectClass=nsds5Replica)(nsDS5ReplicaRoot={suffix}))"
    replicas = search(connection, MAPPING, ldap.SCOPE_SUBTREE, replica, ["nsDS5ReplicaId"])
    agreement = f"(&(objectClass=nsds5replicationagreement)(nsDS5ReplicaRoot={suffix}))"
    agreements = search(connection, MAPPING, ldap.SCOPE_SUBTREE, agreement, [STATUS])
    vectors = search(connection, suffix, ldap.SCOPE_SUBTREE, VECTOR, ["nsds50ruv"])
    any_entry = "(objectClass=*)"
    counters = search(connection, asked["numbers"], ldap.SCOPE_BASE, any_entry, ["dnaNextValue"])
    entries = search(connection, suffix, ldap.SCOPE_SUBTREE, any_entry, ["uidNumber"])
    names = names_of(entries)
    state = {
        "id": int(next(iter(values_of(replicas, "nsDS5ReplicaId")), 0)),
        **vector(values_of(vectors[:1], "nsds50ruv")),
        "stuck": stuck(values_of(agreements, STATUS)),
        "next": int(next(iter(values_of(counters, "dnaNextValue")), 0)),
        "digest": hashlib.sha256("\n".join(names).encode()).hexdigest(),
    }
    other = asked["covers"] or {}
    if "names" in other and not objection(state, other):
        tombstone = "(objectClass=nsTombstone)"
        tombstones = search(connection, suffix, ldap.SCOPE_SUBTREE, tombstone, ["nscpEntryDN"])
        deleted = list(map(str.lower, values_of(tombstones, "nscpEntryDN")))
        state["lacks"] = lacking(names, other["names"], deleted)
    if asked["names"]:
        state["names"] = names
        state["numbers"] = sorted(map(int, values_of(entries, "uidNumber")))
    connection.unbind_s()
    return state


def read_or_fail(module: AnsibleModule) -> dict[str, Any]:
    """Return the present state of the server; an error ends the module."""
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
    """Read the state, again while changes are missing and there is time, and end the module."""
    asked = module.params
    started = time.monotonic()
    while True:
        state = read_or_fail(module)
        seen = objection(state, asked["covers"]) if asked["covers"] else ""
        waited = time.monotonic() - started
        is_late = seen and waited < asked["wait_s"]
        is_stuck = state["stuck"] and waited < asked["retry_s"]
        if not is_late and not is_stuck:
            break
        time.sleep(PAUSE_S)
    result: dict[str, Any] = {"replica": state}
    if asked["covers"] is not None:
        hint = GIVE if state.get("lacks") else HINT
        check = {"what": WHAT, "ok": not seen, "seen": seen, "who": "operator"}
        result["looks"] = [check | {"hint": hint if seen else ""}]
    if seen and asked["demand"]:
        module.fail_json(msg=f"{WHAT}: {seen}", **result)
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
