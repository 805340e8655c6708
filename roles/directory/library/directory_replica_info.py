# SPDX-License-Identifier: Apache-2.0
"""Tell what a directory server has and what it heard of its changes, and whether another's changes
have come here.
"""

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
short_description: What a directory server has of a replicated tree
description:
  - Changes nothing. With C(covers) it fails if changes or entries that another supplier had do not come here in time.
  - An entry does not come if the other forgot that it has to send it. All is well then but for the entry.
  - Without a server to ask, check mode tells nothing of it.
options:
  uri: {type: str, required: true, description: Address of the server's local socket.}
  suffix: {type: str, required: true, description: Root of the tree.}
  numbers: {type: str, required: true, description: Entry that holds the number which the next user gets.}
  names: {type: bool, default: false, description: Whether to tell the names and numbers of all entries.}
  covers: {type: dict, description: What this module said of another supplier.}
  demand: {type: bool, default: true, description: Whether to fail then; otherwise C(lacks) tells.}
  wait_s: {type: int, default: 10, description: How long changes may take to come here.}
  retry_s: {type: int, default: 0, description: How long a supplier may try in vain to send its changes.}
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Learn what the server has
  directory_replica_info:
    uri: ldapi://%2Frun%2Fslapd-gridstead.socket
    suffix: dc=example,dc=org
    numbers: cn=uid numbers,cn=Distributed Numeric Assignment Plugin,cn=plugins,cn=config
"""

RETURN = r"""
replica:
  description: >-
    C(id) of the supplier, 0 for none; C(generation) of its data; C(csns), the last change it has of each supplier;
    C(next) number, 0 for none; whether it is C(stuck), trying in vain to send its changes; C(digest), the same for
    suppliers with the same entries. With C(names) also the C(names) of all entries and the C(numbers) of users. With
    C(names) in C(covers) also C(lacks), those of them that are not here and were not deleted here, once all changes
    have come.
  type: dict
  returned: always
looks: {type: list, returned: with covers, description: What was looked at, as module inspection tells it.}
"""

# An entry that is no entry: suppliers keep in it what they have of each other.
VECTOR = "(&(objectClass=nsTombstone)(nsUniqueId=ffffffff-ffffffff-ffffffff-ffffffff))"
GENERATION = re.compile(r"\{replicageneration\} (\S+)")
ELEMENT = re.compile(r"\{replica (\d+)[^}]*\} \S+ (\S+)")
# Entries of the suppliers' own, which come and go.
OWN = "cn=repl keep alive"
MAPPING = "cn=mapping tree,cn=config"
STATUS = "nsds5replicaLastUpdateStatusJSON"
# As the server numbers that it could not send a change and will try again. It tries for ever when
# it was killed within 30 s of a change: it then begins its list of changes anew, without some that
# the other has and that it goes on from.
TRIES_AGAIN = "18"
PAUSE_S = 0.5
WHAT = "it has the changes of the other supplier"
HINT = (
    "Run `dsconf INSTANCE repl-agmt list --suffix SUFFIX` on both: it tells why they do not hear each other. "
    "docs/howto/directory.md has what to do."
)
GIVE = "Run site.yml: it gives the entries to it, if nothing is lost by it."


def vector(values: list[str]) -> dict[str, Any]:
    """Return the generation and the last changes that a supplier's vector tells; empty ones of an
    empty vector.
    """
    found = [match[1] for match in map(GENERATION.match, values) if match]
    elements = [match for match in map(ELEMENT.match, values) if match]
    return {
        "generation": found[0] if found else "",
        "csns": {match[1]: match[2] for match in elements},
    }


def objection(mine: dict[str, Any], other: dict[str, Any]) -> str:
    """Return what a supplier lacks of what another had before; empty if nothing. CSNs compare as
    text.
    """
    if not other:
        return ""
    if mine["generation"] != other["generation"]:
        return "their data has different origins, and no change goes from one to the other"
    late = [number for number, csn in other["csns"].items() if mine["csns"].get(number, "") < csn]
    if late:
        return f"changes made on supplier {', '.join(sorted(late))} have not come"
    lacks = mine.get("lacks", [])
    return f"{len(lacks)} entries of the other never came, {lacks[0]} among them" if lacks else ""


def lacking(mine: list[str], other: list[str], deleted: list[str]) -> list[str]:
    """Return the names that another supplier has and this one never had, sorted."""
    return sorted({*other} - {*mine} - {*deleted})


def stuck(statuses: list[str]) -> bool:
    """Return whether a supplier tries again to send a change, by what it says of those it sends
    changes to.
    """
    return any(json.loads(status).get("repl_rc") == TRIES_AGAIN for status in statuses)


def search(
    connection: Any,  # noqa: ANN401 - python-ldap has no types
    base: str,
    scope: int,
    pattern: str,
    names: list[str],
) -> list[tuple[str, dict[str, Any]]]:
    """Return entries as text, attributes in lower case; none if the base is not there."""
    try:
        found = connection.search_s(base, scope, pattern, names)
    except ldap.NO_SUCH_OBJECT:
        return []
    return [
        (
            dn.lower(),
            {
                name.lower(): [one.decode(errors="replace") for one in values]
                for name, values in entry.items()
            },
        )
        for dn, entry in found
    ]


def look(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what the server has now."""
    connection, suffix = ldap.initialize(asked["uri"]), asked["suffix"]
    connection.sasl_non_interactive_bind_s("EXTERNAL")
    mine = f"(&(objectClass=nsds5Replica)(nsDS5ReplicaRoot={suffix}))"
    replicas = search(connection, MAPPING, ldap.SCOPE_SUBTREE, mine, ["nsDS5ReplicaId"])
    others = f"(&(objectClass=nsds5replicationagreement)(nsDS5ReplicaRoot={suffix}))"
    agreements = search(connection, MAPPING, ldap.SCOPE_SUBTREE, others, [STATUS])
    vectors = search(connection, suffix, ldap.SCOPE_SUBTREE, VECTOR, ["nsds50ruv"])
    counters = search(
        connection, asked["numbers"], ldap.SCOPE_BASE, "(objectClass=*)", ["dnaNextValue"]
    )
    found = {
        "id": int(replicas[0][1]["nsds5replicaid"][0]) if replicas else 0,
        **vector(vectors[0][1].get("nsds50ruv", []) if vectors else []),
        "stuck": stuck(
            [status for _, entry in agreements for status in entry.get(STATUS.lower(), [])]
        ),
        "next": int(counters[0][1]["dnanextvalue"][0]) if counters else 0,
    }
    entries = search(connection, suffix, ldap.SCOPE_SUBTREE, "(objectClass=*)", ["uidNumber"])
    names = sorted(dn for dn, _ in entries if not dn.startswith(OWN))
    found["digest"] = hashlib.sha256("\n".join(names).encode()).hexdigest()
    other = asked["covers"] or {}
    if "names" in other and not objection(found, other):
        tombstones = search(
            connection, suffix, ldap.SCOPE_SUBTREE, "(objectClass=nsTombstone)", ["nscpEntryDN"]
        )
        deleted = [dn.lower() for _, entry in tombstones for dn in entry.get("nscpentrydn", [])]
        found["lacks"] = lacking(names, other["names"], deleted)
    if asked["names"]:
        found["names"] = names
        found["numbers"] = sorted(
            int(number) for _, entry in entries for number in entry.get("uidnumber", [])
        )
    connection.unbind_s()
    return found


def run(module: AnsibleModule) -> None:
    """Look, again for a while if changes are awaited, and leave the module with its result."""
    asked = module.params
    begun = time.monotonic()
    while True:
        try:
            found = look(asked)
        except ldap.SERVER_DOWN:
            if module.check_mode and asked["covers"] is None:
                module.exit_json(changed=False)
            module.fail_json(msg=f"could not reach the directory at {asked['uri']}")
        except ldap.LDAPError as error:
            module.fail_json(
                msg=f"could not read the directory at {asked['uri']}: {error.args[0] if error.args else error}"
            )
        seen = objection(found, asked["covers"]) if asked["covers"] else ""
        waited = time.monotonic() - begun
        if not (seen and waited < asked["wait_s"]) and not (
            found["stuck"] and waited < asked["retry_s"]
        ):
            break
        time.sleep(PAUSE_S)
    hint = GIVE if found.get("lacks") else HINT
    looks = [
        {
            "what": WHAT,
            "ok": not seen,
            "seen": seen,
            "who": "operator",
            "hint": hint if seen else "",
        }
    ]
    told = {"replica": found, **({"looks": looks} if asked["covers"] is not None else {})}
    if seen and asked["demand"]:
        module.fail_json(msg=f"{WHAT}: {seen}", **told)
    module.exit_json(changed=False, **told)


def main() -> None:
    """Entry point of the module."""
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
