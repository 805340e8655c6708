# SPDX-License-Identifier: Apache-2.0
"""The parsers of scontrol's list of nodes, on recorded output of every supported version."""

from functools import partial

import pytest

from gridstead.adapters.slurm import nodes
from gridstead.domain.benchmarks.site import Node
from gridstead.errors import UnexpectedOutput


def test_nodes_have_the_resources_that_jobs_can_use(read_recorded):
    hardware = nodes.parse_nodes(read_recorded("nodes"))

    assert hardware.gpus_per_node == (0,)
    assert hardware.cpus_per_node == (64,)
    assert hardware.memory_per_node_mb == (4000,)


def test_nodes_are_sorted_by_name_with_their_gpus(read_recorded):
    compute1 = read_recorded("nodes").strip()
    compute0 = compute1.replace("compute1", "compute0")
    compute0 = compute0.replace("billing=64", "billing=64,gres/gpu=4,gres/gpu:a100=4")

    assert nodes.parse_nodes(f"{compute1}\n{compute0}\n").gpus_per_node == (4, 0)


def test_free_nodes_have_the_resources_that_no_job_uses(read_recorded):
    compute1 = read_recorded("nodes").strip()
    compute0 = compute1.replace("compute1", "compute0")
    compute0 = compute0.replace("billing=64", "billing=64,gres/gpu=4")
    compute0 = compute0.replace("AllocTRES=cpu=2", "AllocTRES=gres/gpu=1,cpu=2")

    free_nodes = nodes.parse_free_nodes(f"{compute1}\n{compute0}\n")

    assert free_nodes.gpus_per_node == (3, 0)
    assert free_nodes.cpus_per_node == (62, 62)
    assert free_nodes.memory_per_node_mb == (3936, 3936)


@pytest.mark.parametrize(
    ("state", "count"),
    [
        ("IDLE", 1),
        ("ALLOCATED+COMPLETING", 1),
        ("IDLE+CLOUD+POWERED_DOWN", 1),
        ("MIXED+PLANNED", 1),
        ("IDLE+DRAIN", 0),
        ("DOWN+NOT_RESPONDING", 0),
        ("IDLE*", 0),
        ("MIXED+MAINTENANCE", 0),
        ("ASLEEP", 0),
    ],
)
def test_only_nodes_that_accept_jobs_are_free(read_recorded, state, count):
    listing = read_recorded("nodes").replace("State=MIXED", f"State={state}")

    assert nodes.parse_free_nodes(listing).node_count == count


def test_measured_nodes_accept_jobs_and_are_in_the_partition(read_recorded):
    compute1 = read_recorded("nodes").strip()
    compute0 = compute1.replace("compute1", "compute0").replace(
        "ThreadsPerCore=1", "ThreadsPerCore=2"
    )
    drained = compute1.replace("compute1", "compute2").replace("State=MIXED", "State=IDLE+DRAIN")
    text = f"{compute1}\n{compute0}\n{drained}\n"

    measured_nodes = nodes.parse_benchmark_nodes(text, partition="main")

    assert measured_nodes == (
        Node(name="compute0", cores=32, memory_mib=4000),
        Node(name="compute1", cores=64, memory_mib=4000),
    )
    assert nodes.parse_benchmark_nodes(text, partition="mai") == ()


@pytest.mark.parametrize(
    ("parse", "malformed"),
    [
        (nodes.parse_nodes, "NodeName=a CPUTot=4\n"),
        (nodes.parse_free_nodes, "NodeName=a CPUEfctv=4 RealMemory=9 CfgTRES=cpu=4\n"),
        (
            partial(nodes.parse_benchmark_nodes, partition="main"),
            "NodeName=a CPUEfctv=4 RealMemory=9 CfgTRES=cpu=4\n",
        ),
    ],
)
def test_malformed_output_is_an_error(parse, malformed):
    with pytest.raises(UnexpectedOutput):
        parse(malformed)
