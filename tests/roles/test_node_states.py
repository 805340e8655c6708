# SPDX-License-Identifier: Apache-2.0
"""Tests of the filters with which playbooks/drain.yml reads node states from output of sinfo."""

import pytest
from ansible_collections.gridstead.site.plugins.filter import node_states as filters

SINFO = (
    "compute2            |mixed+drain         |new | disks          ",
    "compute1            |idle                |none                ",
    "compute1            |idle                |none                ",
    "compute3            |down*               |Not responding      ",
    "cloud1              |idle+powered_down   |none                ",
)


def test_a_node_in_two_partitions_has_one_state():
    """sinfo prints compute1 once for each of its partitions."""
    assert filters.node_states(SINFO) == {
        "compute1": "idle",
        "compute2": "mixed+drain",
        "compute3": "down*",
        "cloud1": "idle+powered_down",
    }


@pytest.mark.parametrize(
    ("flags", "nodes"),
    [(["drain"], ["compute2"]), (["drain", "down"], ["compute2", "compute3"]), (["maint"], [])],
)
def test_nodes_are_found_by_a_state_or_a_flag(flags, nodes):
    assert filters.nodes_with_state(filters.node_states(SINFO), *flags) == nodes


STATES_BEFORE = {"compute1": "idle", "compute2": "mixed", "compute3": "down*"}


def sinfo_result(*lines, **more):
    """Return the result of a task that runs sinfo."""
    return {"rc": 0, "stdout_lines": list(lines), **more}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (sinfo_result("compute1|idle|", "compute2|mixed|", "compute3|down*|"), ""),
        (sinfo_result("compute1|idle|", "compute2|mixed|", "compute3|idle|", "compute4|idle|"), ""),
        (
            sinfo_result("compute1|idle+not_responding|", "compute2|unknown|"),
            "compute1, compute2 stopped answering",
        ),
        (sinfo_result("compute2|mixed+drain|"), "compute1 stopped answering"),
        (sinfo_result(), "compute1, compute2 stopped answering"),
        (
            sinfo_result(rc=1, stderr="slurm_load_node:\n Refused"),
            'slurmctld does not answer ("slurm_load_node: Refused")',
        ),
        ({"rc": 2, "msg": "no sinfo"}, 'slurmctld does not answer ("no sinfo")'),
    ],
)
def test_a_node_that_stopped_answering_is_named(result, message):
    """The message does not name compute3, which did not answer before either."""
    assert filters.loss_of_nodes(result, STATES_BEFORE) == message
