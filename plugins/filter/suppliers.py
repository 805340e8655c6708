# SPDX-License-Identifier: Apache-2.0
"""Filters for the suppliers of a directory.

They compute the uid range of each supplier, which supplier sends its entries to the other, and what
prevents replication. ``looks`` are the results of module ``directory_replica_info`` by server.
Example: with ``looks`` of ``ldap1`` and of a new ``ldap2``,
``{{ looks | gridstead.site.supplier_source(['ldap1', 'ldap2']) }}`` is ``ldap1``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Replica = Mapping[str, Any]


def supplier_looks(
    hostvars: Mapping[str, Mapping[str, Any]], suppliers: Sequence[str], result: str
) -> dict[str, Replica]:
    """Return the results that hosts registered under a name, without hosts that have none."""
    replicas = {}
    for name in suppliers:
        registered = hostvars[name].get(result, {})
        if "replica" in registered:
            replicas[name] = registered["replica"]
    return replicas


def supplier_numbers(first: int, last: int, place: int, count: int) -> dict[str, int]:
    """Return the first and last uid that a supplier assigns.

    The ranges of all suppliers are disjoint and together contain all uids from ``first`` to
    ``last``.

    Args:
        first: The first uid of all suppliers.
        last: The last uid of all suppliers.
        place: The index of the supplier, from 0.
        count: The number of suppliers.
    """
    share = (int(last) - int(first) + 1) // int(count)
    start = int(first) + int(place) * share
    is_last = int(place) == int(count) - 1
    return {"first": start, "last": int(last) if is_last else start + share - 1}


def supplier_problem(
    looks: Mapping[str, Replica], suppliers: Sequence[str], first: int, last: int
) -> str:
    """Return why these servers cannot be these suppliers; empty if they can."""
    for place, name in enumerate(suppliers):
        replica = looks.get(name, {})
        share = supplier_numbers(first, last, place, len(suppliers))
        if replica.get("id", 0) not in {0, place + 1}:
            return (
                f"{name} is supplier {replica['id']} of its directory, but number {place + 1} in"
                " directory_suppliers. A supplier must keep its place. If the other supplier is"
                " lost, replace it by a new, empty host in the same place: it receives its entries"
                f" from {name}."
            )
        next_uid = replica.get("next", 0)
        if next_uid and not share["first"] <= next_uid <= share["last"] + 1:
            return (
                f"{name} assigns uid {next_uid} to the next user, but its range is"
                f" {share['first']} to {share['last']}. Choose directory_uid_first and"
                " directory_uid_last so that its range contains that uid."
            )
    return ""


def supplier_heard(looks: Mapping[str, Replica], suppliers: Sequence[str]) -> bool:
    """Return whether each supplier sends its changes to the others, and no change is lost.

    All suppliers must have data of the same origin, no supplier may be stuck, and no supplier may
    lack entries that another one forgot to send.
    """
    generations = set()
    for name in suppliers:
        replica = looks.get(name, {})
        generations.add(replica.get("generation", ""))
        if replica.get("stuck") or replica.get("lacks"):
            return False
    return len(generations) == 1 and "" not in generations


def supplier_alike(looks: Mapping[str, Replica], suppliers: Sequence[str]) -> bool:
    """Return whether all suppliers that answered have the same entries, by name."""
    digests = set()
    for name in suppliers:
        if name in looks:
            digests.add(looks[name]["digest"])
    return len(digests) <= 1


def supplier_source(looks: Mapping[str, Replica], suppliers: Sequence[str]) -> str:
    """Return the first supplier that has all entries of the others; empty if there is none.

    A stuck supplier is preferred: it receives the changes of the others, but they do not receive
    its changes.
    """
    names, all_names = {}, set()
    for name in suppliers:
        names[name] = set(looks[name]["names"])
        all_names |= names[name]
    for name in sorted(suppliers, key=lambda name: not looks[name].get("stuck")):
        if names[name] == all_names:
            return name
    return ""


def supplier_next(
    looks: Mapping[str, Replica], source: str, name: str, share: Mapping[str, int], skip: int
) -> int:
    """Return the next uid of a supplier, after it has received all entries of the source.

    The source has the users of the supplier's range, except those that it never received. ``skip``
    uids are left out for them.
    """
    used = [uid for uid in looks[source]["numbers"] if share["first"] <= uid <= share["last"]]
    free = max(used) + 1 + int(skip) if used else share["first"]
    return min(max(free, looks[name].get("next", 0)), share["last"])


class FilterModule:
    """The entry point that Ansible expects."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {
            "supplier_looks": supplier_looks,
            "supplier_numbers": supplier_numbers,
            "supplier_problem": supplier_problem,
            "supplier_heard": supplier_heard,
            "supplier_alike": supplier_alike,
            "supplier_source": supplier_source,
            "supplier_next": supplier_next,
        }
