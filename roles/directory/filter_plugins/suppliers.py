# SPDX-License-Identifier: Apache-2.0
"""Filters about the suppliers of a directory: who numbers which users, who gives its entries to
whom, what forbids it.

A look is what module ``directory_replica_info`` says of a server. Example: with ``looks`` of ``ldap1`` and of a new
``ldap2``, ``{{ looks | supplier_source(['ldap1', 'ldap2']) }}`` is ``ldap1``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Look = Mapping[str, Any]


def supplier_looks(
    hostvars: Mapping[str, Mapping[str, Any]], suppliers: Sequence[str], result: str
) -> dict[str, Look]:
    """Return the looks that hosts registered under a name; of a host that was not asked there is
    none.
    """
    told = {name: hostvars[name].get(result, {}) for name in suppliers}
    return {name: one["replica"] for name, one in told.items() if "replica" in one}


def supplier_numbers(first: int, last: int, place: int, count: int) -> dict[str, int]:
    """Return the first and last number that the supplier at a place, counted from 0, gives to
    users.

    The shares of all suppliers are disjoint, and together they are all numbers from ``first`` to
    ``last``.
    """
    share = (int(last) - int(first) + 1) // int(count)
    mine = int(first) + int(place) * share
    return {"first": mine, "last": int(last) if int(place) == int(count) - 1 else mine + share - 1}


def supplier_problem(
    looks: Mapping[str, Look], suppliers: Sequence[str], first: int, last: int
) -> str:
    """Return why these servers cannot be these suppliers; empty if they can."""
    for place, name in enumerate(suppliers):
        look, share = looks.get(name, {}), supplier_numbers(first, last, place, len(suppliers))
        if look.get("id", 0) not in {0, place + 1}:
            return (
                f"{name} is supplier {look['id']} of its directory, and number {place + 1} of directory_suppliers. "
                "A supplier keeps its place. When the other is lost, put a new, empty host in its place: it gets its "
                f"entries from {name}."
            )
        if look.get("next", 0) and not share["first"] <= look["next"] <= share["last"] + 1:
            return (
                f"{name} gives a new user number {look['next']}, and shall give those from {share['first']} to "
                f"{share['last']}. Choose directory_uid_first and directory_uid_last such that its share holds it."
            )
    return ""


def supplier_heard(looks: Mapping[str, Look], suppliers: Sequence[str]) -> bool:
    """Return whether changes go from each supplier to the others, and none has been lost.

    Their data comes from one of them, none is stuck, and none lacks what another forgot to send.
    """
    found = {looks.get(name, {}).get("generation", "") for name in suppliers}
    wrong = any(looks.get(name, {}).get(what) for name in suppliers for what in ("stuck", "lacks"))
    return len(found) == 1 and "" not in found and not wrong


def supplier_alike(looks: Mapping[str, Look], suppliers: Sequence[str]) -> bool:
    """Return whether all suppliers that were looked at have the same entries, by name."""
    return len({looks[name]["digest"] for name in suppliers if name in looks}) <= 1


def supplier_source(looks: Mapping[str, Look], suppliers: Sequence[str]) -> str:
    """Return the first supplier that has every entry of the others; empty if each has one that
    another lacks.

    One that is stuck comes first: it hears of the others' changes, and they do not hear of its own.
    """
    names = {name: set(looks[name]["names"]) for name in suppliers}
    tried = sorted(suppliers, key=lambda name: not looks[name].get("stuck"))
    return next(
        (name for name in tried if all(names[name] >= other for other in names.values())), ""
    )


def supplier_next(
    looks: Mapping[str, Look], source: str, name: str, share: Mapping[str, int], skip: int
) -> int:
    """Return the number that a supplier gives next, once it has all entries of the source.

    Who had numbers of its share before it came is known by the source, but for those it never heard
    of: as many are left out.
    """
    taken = [one for one in looks[source]["numbers"] if share["first"] <= one <= share["last"]]
    free = max(taken) + 1 + int(skip) if taken else share["first"]
    return min(max(free, looks[name].get("next", 0)), share["last"])


class FilterModule:
    """Ansible's way to find the filters of this file."""

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
