# SPDX-License-Identifier: Apache-2.0
"""The inventory script, with and without a lab."""

from pathlib import Path

from tests.modules import load

from gridstead_lab import names, state, topology

hosts = load(Path("inventory/lab/hosts.py"))

MINE = names.names(Path("/srv/checkout"), "small")
ASKED = topology.parse(Path("molecule/lab/topology.json").read_text())
NOW = state.State(
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


def test_before_the_lab_is_up_hosts_and_groups_are_there_without_addresses():
    found = hosts.inventory(MINE, None, ASKED)

    assert found["_meta"]["hostvars"] == {}
    assert found["storage"] == {"hosts": ["infra"]}
    assert found["slurm"] == {
        "children": ["slurm_controller", "slurm_accounting", "slurm_login", "slurm_compute"]
    }
    assert "gridstead_lab_gateway" not in found["all"]["vars"]


def test_a_lab_that_is_up_says_its_own_hosts_and_addresses():
    found = hosts.inventory(MINE, NOW, ASKED)

    assert found["all"]["hosts"] == ["head"]
    assert found["_meta"]["hostvars"] == {"head": {"ansible_host": "10.70.0.11"}}
    assert found["all"]["vars"]["gridstead_lab_gateway"] == "10.70.0.1"
    assert "storage" not in found


def test_host_keys_are_pinned_and_secrets_lie_in_the_labs_folder():
    variables = hosts.inventory(MINE, NOW, ASKED)["all"]["vars"]

    assert "StrictHostKeyChecking=yes" in variables["ansible_ssh_common_args"]
    assert variables["gridstead_secrets_dir"] == "/srv/checkout/.lab/small/secrets"
