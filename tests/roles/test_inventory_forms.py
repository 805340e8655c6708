# SPDX-License-Identifier: Apache-2.0
"""The inventory check reports values of wrong types."""

from __future__ import annotations

import pytest
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check import roles
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.value_types import (
    type_fault,
)
from tests.roles.inventories import Inventory

WRONG_TYPES = [
    ("slurm_config", "", "slurm_config: is text, but must be a table"),
    ("slurm_config", None, "slurm_config: is empty; remove the line to use the default"),
    (
        "slurm_gres",
        ["Name=gpu"],
        "slurm_gres: number 1 is text, but must be a table",
    ),
    ("slurm_partitions", {"main": "Nodes=ALL"}, 'slurm_partitions.main: "Nodes=ALL"'),
    (
        "slurm_plugins_wallets",
        {5: 0},
        'slurm_plugins_wallets: has the key "5", but a key must be text',
    ),
    ("slurm_state_directory", ["/srv"], "slurm_state_directory: is a list, but must be text"),
    (
        "control_plane_services",
        True,
        "control_plane_services: is True, but must be a list",
    ),
    (
        "control_plane_services",
        [{}],
        "control_plane_services: number 1 is a table, but must be text",
    ),
    (
        "control_plane_settings",
        {"supervisor": 5},
        "control_plane_settings.supervisor: is not a table",
    ),
    ("gridstead_networks", ["10.0.0.0/24"], "gridstead_networks: \"['10.0.0.0/24']\""),
    ("gridstead_networks", {"slurm": None}, 'gridstead_networks.slurm: "None"'),
    ("gridstead_extra_flows", {"to": "slurm"}, "gridstead_extra_flows: "),
    ("gridstead_ssh_from", [{"a": 1}], "\"{'a': 1}\" is not a group, an address"),
    (
        "gridstead_labels",
        {"os": {1: 2}},
        "gridstead_labels: cannot be computed: to_toml cannot write the key 1",
    ),
    (
        "gridstead_labels",
        {"os": [{"a": 1}]},
        "gridstead_labels: cannot be computed: to_toml cannot write a value of type dict",
    ),
]


BAD_LABELS = [
    ({"compute.gflops": "1e+06"}, "invalid value '1e+06' of label compute.gflops"),
    ({"gpus": "1e+06"}, "invalid value '1e+06' of label gpus: a number must be a plain decimal"),
    ({"site": "x" * 65}, "of label site: it has 65 bytes, at most 64"),
    ({"x" * 65: "lab"}, "of a label: it has 65 bytes, at most 64"),
    ({f"key{number}": "x" for number in range(65)}, "there are 65, at most 64"),
]


@pytest.mark.parametrize(("labels", "message"), BAD_LABELS)
def test_a_label_that_is_not_permitted_is_reported(inventory: Inventory, labels, message):
    inventory.set_variables(gridstead_labels=labels)

    lines = inventory.problems()

    assert any("gridstead_labels" in line and message in line for line in lines), lines


@pytest.mark.parametrize(("name", "value", "message"), WRONG_TYPES)
def test_a_value_of_a_wrong_type_is_reported(inventory: Inventory, name, value, message):
    inventory.set_variables(**{name: value})

    messages = inventory.problems()

    assert any(message in line for line in messages), messages


@pytest.mark.parametrize(
    "value", ["text", 5, True, None, [1], [None], [{}], {"a": None}, {1: 2}, {"a": {"b": [1]}}]
)
def test_wrong_types_everywhere_cause_messages_and_no_traceback(inventory: Inventory, value):
    names = set()
    for role in roles.read_roles(inventory.loader):
        names |= set(role.options)
    for variables in inventory.variables.values():
        names |= {name for name in variables if name.startswith("gridstead_")}
    names -= {"gridstead_services", "gridstead_secrets_dir"}

    inventory.set_variables(**dict.fromkeys(names, value))

    assert inventory.problems()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ({"type": "dict", "default": {}}, {}),
        ({"type": "dict"}, None),
        ({"type": "list", "elements": "str"}, ["a", 5]),
        ({"type": "path"}, "/srv"),
        ({"type": "int"}, "5"),
        ({}, [1]),
    ],
)
def test_a_value_whose_type_only_ansible_checks_is_accepted(option, value):
    """type_fault checks only tables, lists and texts."""
    assert type_fault(option, value) is None
