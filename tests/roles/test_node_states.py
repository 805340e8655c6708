# SPDX-License-Identifier: Apache-2.0
"""The states of sinfo in which playbooks/drain.yml drains and resumes nodes."""

import pytest
from ansible_collections.gridstead.site.plugins.filter import node_states as filters

SINFO = (
    "compute2            |mixed+drain         |new | disks          ",
    "compute1            |idle                |none                ",
    "compute1            |idle                |none                ",
    "compute3            |down*               |Not responding      ",
    "cloud1              |idle+powered_down   |none                ",
)


def test_a_node_in_two_partitions_has_one_state_and_any_reason():
    assert filters.node_states(SINFO) == {
        "compute1": "idle", "compute2": "mixed+drain", "compute3": "down*", "cloud1": "idle+powered_down",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "nodes"),
    [(["drain"], ["compute2"]), (["drain", "down"], ["compute2", "compute3"]), (["maint"], [])],
)
def test_a_state_is_recognised_among_flags(words, nodes):
    assert filters.nodes_with_state(filters.node_states(SINFO), *words) == nodes


ANSWERED = {"compute1": "idle", "compute2": "mixed", "compute3": "down*"}


def looked(*lines, **result):
    return {"rc": 0, "stdout_lines": list(lines), **result}


@pytest.mark.parametrize(
    ("result", "loss"),
    [
        (looked("compute1|idle|", "compute2|mixed|", "compute3|down*|"), ""),
        (looked("compute1|idle|", "compute2|mixed|", "compute3|idle|", "compute4|idle|"), ""),
        (
            looked("compute1|idle+not_responding|", "compute2|unknown|"),
            "compute1, compute2 stopped answering",
        ),
        (looked("compute2|mixed+drain|"), "compute1 stopped answering"),
        (looked(), "compute1, compute2 stopped answering"),
        (
            looked(rc=1, stderr="slurm_load_node:\n Refused"),
            'slurmctld does not answer ("slurm_load_node: Refused")',
        ),
        ({"rc": 2, "msg": "no sinfo"}, 'slurmctld does not answer ("no sinfo")'),
    ],
)
def test_an_unknown_node_is_lost(result, loss):
    assert filters.loss_of_nodes(result, ANSWERED) == loss
