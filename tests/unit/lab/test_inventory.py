# SPDX-License-Identifier: Apache-2.0
"""Tests of the inventory script, with and without a lab."""

from pathlib import Path

from tests.modules import load

from gridstead_lab import names, state, topology

hosts = load(Path("inventory/lab/hosts.py"))

LAB_NAMES = names.names(Path("/srv/checkout"), "small")
TOPOLOGY = topology.parse(Path("molecule/lab/topology.json").read_text())
STATE = state.State(
    lab="small",
    prefix="gs12ab",
    topology="0",
    network="10.70.0.0/24",
    gateway="10.70.0.1",
    cgroup="v1",
    image=[],
    groups={"slurm": ["controller"]},
    members={"controller": ["head"]},
    hosts={"head": {"address": "10.70.0.11"}},
)


def test_without_a_lab_hosts_have_no_addresses():
    inventory = hosts.inventory(LAB_NAMES, None, TOPOLOGY)

    assert inventory["_meta"]["hostvars"] == {}
    assert inventory["storage"] == {"hosts": ["infra"]}
    assert inventory["slurm"] == {
        "children": ["slurm_controller", "slurm_accounting", "slurm_login", "slurm_compute"]
    }
    assert "gridstead_lab_gateway" not in inventory["all"]["vars"]


def test_a_running_lab_has_its_hosts_and_addresses():
    inventory = hosts.inventory(LAB_NAMES, STATE, TOPOLOGY)

    assert inventory["all"]["hosts"] == ["head"]
    assert inventory["_meta"]["hostvars"] == {"head": {"ansible_host": "10.70.0.11"}}
    assert inventory["all"]["vars"]["gridstead_lab_gateway"] == "10.70.0.1"
    assert "storage" not in inventory


def test_host_keys_are_pinned_and_secrets_are_in_the_labs_folder():
    variables = hosts.inventory(LAB_NAMES, STATE, TOPOLOGY)["all"]["vars"]

    assert "StrictHostKeyChecking=yes" in variables["ansible_ssh_common_args"]
    assert variables["gridstead_secrets_dir"] == "/srv/checkout/.lab/small/secrets"
