# SPDX-License-Identifier: Apache-2.0
"""Tests of the bash scripts of the steps."""

import subprocess

import pytest
from tests.unit.domain.benchmarks.sites import site

from gridstead.domain.benchmarks.equipment import Equipment, NetworkOptions
from gridstead.domain.benchmarks.scripts import mpi_variables, path_command

UCX = Equipment(uses_ucx=True)
VARIABLES = ("OMPI_MCA_pml", "OMPI_MCA_btl", "UCX_TLS", "UCX_NET_DEVICES")


def variables(equipment, network, *, node="n1"):
    """Return the variables that bash has on a node."""
    commands = mpi_variables(site("n1", "n2", equipment=equipment, network=network))
    result = subprocess.run(
        ["bash", "-c", f"{commands}\nenv"],
        env={"SLURMD_NODENAME": node, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    values = dict(line.split("=", 1) for line in result.stdout.splitlines())
    return {name: values[name] for name in VARIABLES if name in values}


def test_without_ucx_messages_use_tcp():
    network = NetworkOptions(devices={"default": "mlx5_0:1"}, transport="rc")

    assert variables(Equipment(), network) == {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,tcp",
    }


def test_ucx_selects_devices_and_transports_by_itself():
    assert variables(UCX, NetworkOptions()) == {"OMPI_MCA_pml": "ucx"}


@pytest.mark.parametrize(("node", "devices"), [("n1", "mlx5_0:1"), ("n2", "mlx5_1:1,mlx5_2:1")])
def test_each_node_has_its_devices(node, devices):
    network = NetworkOptions(
        devices={"default": "mlx5_0:1", "n2": "mlx5_1:1,mlx5_2:1"}, transport="rc,self"
    )

    assert variables(UCX, network, node=node) == {
        "OMPI_MCA_pml": "ucx",
        "UCX_TLS": "rc,self",
        "UCX_NET_DEVICES": devices,
    }


def test_the_directories_of_the_operator_come_first():
    command = path_command(site("n1", program_directories=("/opt/a b", "/opt/osu")))

    result = subprocess.run(
        ["bash", "-c", f"{command}\necho $PATH"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout == "/opt/a b:/opt/osu:/usr/bin:/bin\n"
