# SPDX-License-Identifier: Apache-2.0
"""Filters for the suppliers of a directory, which are servers that replicate to each other.

The filters compute the uid range of each supplier, choose the supplier whose entries are copied to
the others, and find the faults that prevent replication. The argument ``replicas`` contains the
results of module ``directory_replica_info`` by server. Example: if ``ldap2`` is a new server,
``{{ replicas | gridstead.site.supplier_source(['ldap1', 'ldap2']) }}`` is ``ldap1``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Replica = Mapping[str, Any]


def supplier_replicas(
    hostvars: Mapping[str, Mapping[str, Any]], suppliers: Sequence[str], result_variable: str
) -> dict[str, Replica]:
    """Return the replication state of each supplier, by host. Hosts without a state are left out.

    Args:
        hostvars: Ansible's variable ``hostvars``.
        suppliers: The hosts of the suppliers.
        result_variable: The variable in which each host registered the result of
            directory_replica_info.
    """
    replicas = {}
    for name in suppliers:
        registered_result = hostvars[name].get(result_variable, {})
        if "replica" in registered_result:
            replicas[name] = registered_result["replica"]
    return replicas


def supplier_uid_range(first: int, last: int, index: int, count: int) -> dict[str, int]:
    """Return the first and last uid that a supplier assigns.

    The ranges of all suppliers are disjoint and together contain all uids from ``first`` to
    ``last``.

    Args:
        first: The first uid of all suppliers.
        last: The last uid of all suppliers.
        index: The index of the supplier, from 0.
        count: The number of suppliers.
    """
    size = (int(last) - int(first) + 1) // int(count)
    start = int(first) + int(index) * size
    is_last = int(index) == int(count) - 1
    end = int(last) if is_last else start + size - 1
    return {"first": start, "last": end}


def supplier_problem(
    replicas: Mapping[str, Replica], suppliers: Sequence[str], first: int, last: int
) -> str:
    """Return why the servers cannot be suppliers in this order. Return "" if they can.

    Args:
        replicas: The states of the servers by name.
        suppliers: The names of the servers in the order of their supplier ids.
        first: The first uid of all suppliers.
        last: The last uid of all suppliers.
    """
    for index, name in enumerate(suppliers):
        replica = replicas.get(name, {})
        uid_range = supplier_uid_range(first, last, index, len(suppliers))
        is_new = replica.get("id", 0) == 0
        if not is_new and replica["id"] != index + 1:
            return (
                f"{name} is supplier {replica['id']} of its directory, but number {index + 1} in"
                " directory_suppliers. A supplier must keep its place. If the other supplier is"
                " lost, replace it by a new, empty host in the same place. The new host receives"
                f" all entries from {name}."
            )
        next_uid = replica.get("next", 0)
        is_in_range = uid_range["first"] <= next_uid <= uid_range["last"] + 1
        if next_uid and not is_in_range:
            return (
                f"{name} assigns uid {next_uid} to the next user, but its range is"
                f" {uid_range['first']} to {uid_range['last']}. Choose directory_uid_first and"
                " directory_uid_last so that its range contains that uid."
            )
    return ""


def suppliers_replicate(replicas: Mapping[str, Replica], suppliers: Sequence[str]) -> bool:
    """Return whether replication between all suppliers works.

    Replication works if the data of all suppliers has the same origin, no supplier is stuck, and no
    supplier lacks entries of another supplier.
    """
    generations = set()
    for name in suppliers:
        replica = replicas.get(name, {})
        generations.add(replica.get("generation", ""))
        if replica.get("stuck") or replica.get("lacks"):
            return False
    return len(generations) == 1 and "" not in generations


def suppliers_have_same_entries(replicas: Mapping[str, Replica], suppliers: Sequence[str]) -> bool:
    """Return whether all suppliers that answered have entries with the same names."""
    digests = set()
    for name in suppliers:
        if name in replicas:
            digests.add(replicas[name]["digest"])
    return len(digests) <= 1


def supplier_source(replicas: Mapping[str, Replica], suppliers: Sequence[str]) -> str:
    """Return a supplier that has all entries of the others. Return "" if no supplier has them.

    A stuck supplier takes precedence, because it receives the changes of the others, but the others
    do not receive the changes of the stuck supplier.
    """
    all_entries = set()
    for name in suppliers:
        all_entries.update(replicas[name]["names"])
    stuck_suppliers = [name for name in suppliers if replicas[name].get("stuck")]
    other_suppliers = [name for name in suppliers if name not in stuck_suppliers]
    for name in (*stuck_suppliers, *other_suppliers):
        if set(replicas[name]["names"]) == all_entries:
            return name
    return ""


def supplier_next(
    replicas: Mapping[str, Replica],
    source: str,
    receiver: str,
    uid_range: Mapping[str, int],
    skip: int,
) -> int:
    """Return the uid that a supplier assigns next, after it received all entries of the source.

    Args:
        replicas: The states of the suppliers by name.
        source: The supplier that sends all its entries.
        receiver: The supplier that receives the entries.
        uid_range: The first and last uid of the receiver.
        skip: Number of uids to leave unused, because the receiver may have assigned these uids to
            users that the source never received.
    """
    first, last = uid_range["first"], uid_range["last"]
    used_uids = [uid for uid in replicas[source]["numbers"] if first <= uid <= last]
    next_uid = max(used_uids) + 1 + int(skip) if used_uids else first
    next_uid = max(next_uid, replicas[receiver].get("next", 0))
    return min(next_uid, last)


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {
            "supplier_replicas": supplier_replicas,
            "supplier_uid_range": supplier_uid_range,
            "supplier_problem": supplier_problem,
            "suppliers_replicate": suppliers_replicate,
            "suppliers_have_same_entries": suppliers_have_same_entries,
            "supplier_source": supplier_source,
            "supplier_next": supplier_next,
        }
