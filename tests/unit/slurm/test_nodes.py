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


def test_measured_nodes_are_in_the_partition(read_recorded):
    compute1 = read_recorded("nodes").strip()
    compute0 = compute1.replace("compute1", "compute0").replace(
        "ThreadsPerCore=1", "ThreadsPerCore=2"
    )
    compute0 = compute0.replace("billing=64", "billing=64,gres/gpu=4")
    text = f"{compute1}\n{compute0}\n"

    measured_nodes = nodes.parse_benchmark_nodes(text, partition="main")

    assert measured_nodes == (
        Node(name="compute0", cores=32, memory_mib=4000, gpus=4),
        Node(name="compute1", cores=64, memory_mib=4000),
    )
    assert nodes.parse_benchmark_nodes(text, partition="mai") == ()


@pytest.mark.parametrize(
    ("state", "reason", "unavailable"),
    [
        ("IDLE", "", ""),
        ("IDLE+DRAIN", " Reason=bad disk [root@2026-11-29T02:00:00]", " (bad disk)"),
        ("DOWN+NOT_RESPONDING", " Reason=Not responding", " (Not responding)"),
        ("IDLE+MAINTENANCE+RESERVED", "", ""),
    ],
)
def test_nodes_without_jobs_have_their_state_and_its_reason(
    read_recorded, state, reason, unavailable
):
    listing = read_recorded("nodes").strip().replace("State=MIXED", f"State={state}") + reason

    (node,) = nodes.parse_benchmark_nodes(f"{listing}\n", partition="main")

    expected = "" if state == "IDLE" else f"its state is {state}{unavailable}"
    assert node.unavailable == expected


def test_only_the_nodes_of_a_reservation_are_measured_in_it(read_recorded):
    reserved = read_recorded("nodes").strip()
    reserved = reserved.replace("State=MIXED", "State=IDLE+MAINTENANCE+RESERVED")
    text = f"{reserved}\n{reserved.replace('compute1', 'compute2')}\n"

    (node,) = nodes.parse_benchmark_nodes(text, partition="main", reserved_names=["compute2"])

    assert node == Node(name="compute2", cores=64, memory_mib=4000)


def test_nodes_are_busy_if_they_run_jobs(read_recorded):
    busy = read_recorded("nodes").strip()
    idle = busy.replace("compute1", "compute2").replace("CPUAlloc=2", "CPUAlloc=0")

    assert nodes.parse_busy_nodes(f"{busy}\n{idle}\n") == {"compute1"}


def test_the_nodes_of_a_reservation_are_a_list_of_slurm():
    text = (
        "ReservationName=repaired StartTime=1795919400 EndTime=1795923000 Duration=01:00:00"
        " Nodes=compute[1-2] NodeCnt=2 CoreCnt=128 Features=(null) PartitionName=(null)"
        " Flags=MAINT,SPEC_NODES TRES=cpu=128 Users=gridstead-benchmarks State=ACTIVE\n"
    )

    assert nodes.parse_reservation(text) == "compute[1-2]"
    assert nodes.show_reservation("repaired").argv[-1] == "reservation=repaired"
    assert nodes.show_hostnames("compute[1-2]").argv[-2:] == ("hostnames", "compute[1-2]")


@pytest.mark.parametrize(
    ("parse", "malformed"),
    [
        (nodes.parse_nodes, "NodeName=a CPUTot=4\n"),
        (nodes.parse_free_nodes, "NodeName=a CPUEfctv=4 RealMemory=9 CfgTRES=cpu=4\n"),
        (nodes.parse_busy_nodes, "NodeName=a CPUEfctv=4 RealMemory=9 CfgTRES=cpu=4\n"),
        (nodes.parse_reservation, "No reservations in the system\n"),
        (
            partial(nodes.parse_benchmark_nodes, partition="main"),
            "NodeName=a CPUEfctv=4 RealMemory=9 CfgTRES=cpu=4\n",
        ),
    ],
)
def test_malformed_output_is_an_error(parse, malformed):
    with pytest.raises(UnexpectedOutput):
        parse(malformed)
