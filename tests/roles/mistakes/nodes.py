# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the hardware of compute nodes: slurm_node and slurm_gres."""

from __future__ import annotations

from tests.roles.mistakes.table import Mistakes, caused_by_earlier_entry

NODE_SIZES: Mistakes = {
    "node-missing": (
        lambda inventory: inventory.variables["compute1"].pop("slurm_node"),
        ("host compute1, slurm_node: missing", "CPUs"),
    ),
    "node-without-memory": (
        lambda inventory: inventory.set_node("compute2", RealMemory="256G"),
        ('host compute2, slurm_node.RealMemory: "256G"', "of MB", "free --mebi"),
    ),
}

NODE_PARAMETERS: Mistakes = {
    "node-without-cpus": (
        lambda inventory: inventory.set_node("compute1", CPUs=None),
        ("host compute1, slurm_node.CPUs: missing", "lscpu", "or slurmd -C"),
    ),
    "node-parameter": (
        lambda inventory: inventory.set_node("compute2", Socket=2),
        ("host compute2, slurm_node.Socket", "did you mean Sockets?"),
    ),
    "gres-on-no-node": (
        lambda inventory: inventory.set_variables(
            slurm_gres=[
                {"NodeName": "gpu[1-3]", "AutoDetect": "nvidia"},
                {"Name": "shard", "Count": 8},
            ]
        ),
        ('slurm_gres: a line for "shard", which no compute host declares',),
    ),
    "gres-of-no-node": (
        caused_by_earlier_entry,
        (
            "slurm_gres: NodeName gpu[1-3]: gpu2, gpu3 is not a compute host",
            "compute1, compute2, gpu1",
        ),
    ),
}

DEVICES: Mistakes = {
    "node-shape": (
        lambda inventory: inventory.set_node("compute1", CPUs=100),
        ("slurm_node.CPUs: 100, but the node has 2 sockets with 32 cores each", "128"),
    ),
    "gres-unknown": (
        lambda inventory: (
            inventory.set_node("compute1", Gres="fpga:1"),
            inventory.set_variables(slurm_gres=[{"Name": "fpga", "File": "/dev/f"}]),
        ),
        ('unknown device "fpga"', "GresTypes"),
    ),
    "gres-without-file": (
        caused_by_earlier_entry,
        ('host gpu1, slurm_node.Gres: no line of slurm_gres describes "gpu"', "AutoDetect"),
    ),
}
