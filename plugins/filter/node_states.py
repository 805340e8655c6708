# SPDX-License-Identifier: Apache-2.0
"""Filters for the states of Slurm nodes, as sinfo prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

STATE = re.compile("[a-z_]+")  # does not match flags, such as * in ``down*``
STATES_WITHOUT_ANSWER = ("down", "not_responding", "unknown")


def node_states(lines: Iterable[str]) -> dict[str, str]:
    """Return the state of each node.

    Args:
        lines: Lines ``node|state|...`` of sinfo, with columns of any width. A node has
            one line for each of its partitions, always with the same state.
    """
    states = {}
    for line in lines:
        name, state, *_ = line.split("|")
        states[name.strip()] = state.strip()
    return states


def nodes_with_state(states_by_node: Mapping[str, str], *states: str) -> list[str]:
    """Return the nodes that have one of the states, sorted.

    A node in state ``mixed+drain*`` has the states ``mixed`` and ``drain``. Only whole words match:
    a node in state ``powered_down`` does not have the state ``down``.
    """
    nodes = []
    for name, text in states_by_node.items():
        states_of_node = STATE.findall(text)
        if not set(states).isdisjoint(states_of_node):
            nodes.append(name)
    return sorted(nodes)


def loss_of_nodes(result: Mapping[str, Any], before: Mapping[str, str]) -> str:
    """Return a clause that names the nodes which stopped answering. Return "" if there are none.

    A node that sinfo no longer lists counts as a node that stopped answering. A node that did not
    answer before does not count. If sinfo failed, the clause reports that slurmctld does not
    answer.

    Args:
        result: The result of the task that ran sinfo.
        before: The earlier states by node.
    """
    if result.get("rc") != 0:
        output = result.get("stderr") or result.get("msg") or "no output"
        output_line = " ".join(output.split())
        return f'slurmctld does not answer ("{output_line}")'
    # The state of a node that sinfo no longer lists is "unknown".
    after = dict.fromkeys(before, "unknown") | node_states(result["stdout_lines"])
    silent_before = nodes_with_state(before, *STATES_WITHOUT_ANSWER)
    silent_after = nodes_with_state(after, *STATES_WITHOUT_ANSWER)
    lost_nodes = sorted(set(silent_after) - set(silent_before))
    return f"{', '.join(lost_nodes)} stopped answering" if lost_nodes else ""


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {
            "loss_of_nodes": loss_of_nodes,
            "node_states": node_states,
            "nodes_with_state": nodes_with_state,
        }
