# SPDX-License-Identifier: Apache-2.0
"""Which nodes playbooks/drain.yml closes and opens, from what sinfo prints."""

import importlib.util

import pytest
from tests.roles.catalogue import ROOT

spec = importlib.util.spec_from_file_location("node_states", ROOT / "playbooks/filter_plugins/node_states.py")
filters = importlib.util.module_from_spec(spec)
spec.loader.exec_module(filters)

SINFO = (
    "compute2            |mixed+drain         |new | disks          ",
    "compute1            |idle                |none                ",
    "compute1            |idle                |none                ",
    "compute3            |down*               |Not responding      ",
)


def test_a_node_of_two_partitions_has_one_state_and_a_reason_may_say_anything():
    assert filters.node_states(SINFO) == {"compute1": "idle", "compute2": "mixed+drain", "compute3": "down*"}


@pytest.mark.parametrize(
    ("words", "nodes"), [(["drain"], ["compute2"]), (["drain", "down"], ["compute2", "compute3"]), (["maint"], [])]
)
def test_a_state_is_found_among_others(words, nodes):
    assert filters.nodes_with_state(filters.node_states(SINFO), *words) == nodes
