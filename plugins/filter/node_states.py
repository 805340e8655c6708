# SPDX-License-Identifier: Apache-2.0
"""Filters for the states of Slurm nodes, as sinfo prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

STATE = re.compile("[a-z_]+")  # other characters, as in ``down*``, are flags
SILENT = ("down", "not_responding", "unknown")


def node_states(lines: Iterable[str]) -> dict[str, str]:
    """Return the state of each node.

    Args:
        lines: Lines ``node|state|...`` of sinfo, with columns of any width. sinfo prints a node
            once for each of its partitions, always with the same state.
    """
    states = {}
    for line in lines:
        name, state, *_ = line.split("|")
        states[name.strip()] = state.strip()
    return states


def nodes_with_state(states: Mapping[str, str], *words: str) -> list[str]:
    """Return the nodes that have one of the states, sorted: ``mixed+drain*`` has ``drain``.

    Only whole words match: a node that is ``powered_down`` to save energy is not ``down``.
    """
    nodes = []
    for name, state in states.items():
        words_of_state = STATE.findall(state)
        if not set(words).isdisjoint(words_of_state):
            nodes.append(name)
    return sorted(nodes)


def loss_of_nodes(result: Mapping[str, Any], before: Mapping[str, str]) -> str:
    """Return a clause that names the nodes which answered before and do not now; empty if all do.

    A node that sinfo no longer lists counts as lost. If sinfo failed, the state of every node is
    unknown, and the clause says so.

    Args:
        result: The result of the task that ran sinfo.
        before: The states of the nodes before.
    """
    if result.get("rc") != 0:
        output = result.get("stderr") or result.get("msg") or "no output"
        return f'slurmctld does not answer ("{" ".join(output.split())}")'
    after = dict.fromkeys(before, "unknown") | node_states(result["stdout_lines"])
    lost = set(nodes_with_state(after, *SILENT)) - set(nodes_with_state(before, *SILENT))
    return f"{', '.join(sorted(lost))} stopped answering" if lost else ""


class FilterModule:
    """The entry point that Ansible expects."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {
            "loss_of_nodes": loss_of_nodes,
            "node_states": node_states,
            "nodes_with_state": nodes_with_state,
        }
