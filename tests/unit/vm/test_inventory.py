# SPDX-License-Identifier: Apache-2.0
"""The inventory of the guest."""

from pathlib import Path

import pytest
import yaml

from gridstead_lab import names
from gridstead_lab.errors import LabError
from gridstead_vm import inventory, qemu

CHECKOUT = Path(__file__).parents[3]
SIZE = qemu.GuestSize(cpus=2, memory_mb=6144)


def values(size=SIZE):
    lab_names = names.Names(checkout=Path("/checkout"), lab="vm")
    return inventory.site_values(lab_names, "10.70.1.1", size, "http://mirror.example/debian")


def test_the_inventory_is_that_of_single_with_the_address_of_the_guest():
    example = (CHECKOUT / "inventory/single/hosts.yml").read_text()

    changed = yaml.safe_load(inventory.hosts_text(example, "10.70.1.11"))

    expected = yaml.safe_load(example)
    expected["all"]["hosts"] = {"grid1": {"ansible_host": "10.70.1.11"}}
    assert changed == expected


def test_an_inventory_single_without_its_host_is_refused():
    with pytest.raises(LabError, match="has 0 hosts like"):
        inventory.hosts_text("all: {hosts: {other: {}}}\n", "10.70.1.11")


def test_slurm_gets_the_memory_that_the_services_leave():
    assert values()["slurm_node"] == {"CPUs": 2, "RealMemory": 2144}
    small = qemu.GuestSize(cpus=1, memory_mb=4096)
    assert values(small)["slurm_node"] == {"CPUs": 1, "RealMemory": 1000}


def test_ansible_checks_the_host_key_of_the_guest():
    arguments = values()["ansible_ssh_common_args"]

    assert "StrictHostKeyChecking=yes" in arguments
    assert "UserKnownHostsFile=/checkout/.lab/vm/known_hosts" in arguments
