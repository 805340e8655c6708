# SPDX-License-Identifier: Apache-2.0
"""Slurm's nodes by their states, as sinfo prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def node_states(lines: Iterable[str]) -> dict[str, str]:
    """Return each node's state, from lines of ``node|state|...`` in which columns are as wide as sinfo likes.

    A node stands there once for each of its partitions, with one state.
    """
    columns = ([column.strip() for column in line.split("|")] for line in lines)
    return {name: state for name, state, *_ in columns}


def nodes_with_state(states: Mapping[str, str], *words: str) -> list[str]:
    """Return the nodes whose state has one of the words in it: ``drain`` is in ``mixed+drain``. Sorted."""
    return sorted(name for name, state in states.items() if any(word in state for word in words))


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"node_states": node_states, "nodes_with_state": nodes_with_state}
