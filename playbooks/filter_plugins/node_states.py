# SPDX-License-Identifier: Apache-2.0
"""Slurm's nodes by their states, as sinfo prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

STATE = re.compile("[a-z_]+")  # what else stands there, as in ``down*``, is a mark
SILENT = ("down", "not_responding", "unknown")


def node_states(lines: Iterable[str]) -> dict[str, str]:
    """Return each node's state, from lines of ``node|state|...`` in which columns are as wide as sinfo likes.

    A node stands there once for each of its partitions, with one state.
    """
    columns = ([column.strip() for column in line.split("|")] for line in lines)
    return {name: state for name, state, *_ in columns}


def nodes_with_state(states: Mapping[str, str], *words: str) -> list[str]:
    """Return the nodes that have one of the states, sorted: ``mixed+drain*`` has ``drain``.

    A state is a whole word: a node that is ``powered_down`` to save energy is not ``down``.
    """
    return sorted(name for name, state in states.items() if set(words) & set(STATE.findall(state)))


def loss_of_nodes(looked: Mapping[str, Any], before: Mapping[str, str]) -> str:
    """Return which nodes answered before and do not now, in words; empty if all do.

    A node that is no longer listed is lost, and where sinfo failed nothing is known of any: that is
    a loss too.

    Args:
        looked: What came of the task that asked sinfo.
        before: The nodes' states before.
    """
    if looked.get("rc") != 0:
        words = looked.get("stderr") or looked.get("msg") or "it says nothing"
        return f'slurmctld does not answer ("{" ".join(words.split())}")'
    unlisted = dict.fromkeys(before, "unknown")
    after = unlisted | node_states(looked["stdout_lines"])
    lost = sorted(set(nodes_with_state(after, *SILENT)) - set(nodes_with_state(before, *SILENT)))
    return f"{', '.join(lost)} stopped answering" if lost else ""


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {
            "loss_of_nodes": loss_of_nodes,
            "node_states": node_states,
            "nodes_with_state": nodes_with_state,
        }
