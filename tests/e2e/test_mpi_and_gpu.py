# SPDX-License-Identifier: Apache-2.0
"""Paid jobs whose processes speak to each other over two nodes, and paid jobs with GPUs.

The lab's GPUs are names that Slurm counts; no device belongs to them. The jobs run side by side,
and each step leaves what it saw in its customer's home.
"""

import json
import re

import pytest
from tests import billing_oracle
from tests.e2e import many_customers
from tests.e2e.conftest import wait_until

from gridstead.domain.billing import Prices, Resources

CREDIT = 10**18
PRICES = Prices(
    gpu_per_min=85 * CREDIT // 10,
    cpu_per_min=95 * CREDIT // 100,
    memory_mb_per_min=8 * CREDIT // 100_000,
)
OPEN_MPI = """
from mpi4py import MPI
world = MPI.COMM_WORLD
print(world.rank, world.size, MPI.Get_processor_name(), world.allreduce(world.rank + 1))
"""
MPICH = """
import ctypes, socket
mpi, world, integer, add = ctypes.CDLL("libmpich.so.12"), 0x44000000, 0x4C000405, 0x58000003
rank, size, own, total = (ctypes.c_int() for _ in range(4))
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
own.value = rank.value + 1
mpi.MPI_Allreduce(ctypes.byref(own), ctypes.byref(total), 1, integer, add, world)
print(rank.value, size.value, socket.gethostname(), total.value)
mpi.MPI_Finalize()
"""
# Both nodes are hosts of one machine, and what shares memory with the other would think that it
# can.
OVER_TCP = {"UCX_TLS": "tcp", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"}
TWO_NODES = {"tasks": 2, "cpusPerTask": 40, "memPerCpu": 16, "gpus": 0}  # a node has 64 threads
NODES = {"compute1", "compute2"}


def variables(pairs):
    return [{"key": key, "value": value} for key, value in pairs.items()]


def mpi(kind, program):
    command = f"python3 - <<'PROGRAM' >~/{kind}.$SLURM_PROCID\n{program}PROGRAM\n"
    return {"run": {"command": command, "mpi": kind, "resources": {"tasks": 2}}}


# What Slurm says of a job and its step, and what the step has of it in its environment.
SEEN = """
scontrol --oneliner show job "$SLURM_JOB_ID" >~/NAME.job
scontrol --oneliner show step "$SLURM_JOB_ID.$SLURM_STEP_ID" >~/NAME.step
env >~/NAME.env
"""


def seen(name):
    return SEEN.replace("NAME", name)


def workflow(resources, *steps, **fields):
    return {"resources": resources, "steps": steps, **fields}


@pytest.fixture(scope="module")
def someone(grid):
    return grid.customer("mpi-and-gpu")


@pytest.fixture(scope="module")
def started(someone):
    """Submit the jobs and return their numbers."""

    part = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 40}
    return many_customers.submit_named(someone, {
        "mpi": workflow(
            TWO_NODES, mpi("pmix_v4", OPEN_MPI), mpi("pmi2", MPICH), mpi("none", OPEN_MPI), env=variables(OVER_TCP)
        ),
        "resources": workflow(
            {"tasks": 2, "cpusPerTask": 2, "memPerCpu": 60, "gpus": 0},
            {"run": {"command": seen("whole"), "resources": {"tasks": 2}}},
            {"run": {"command": seen("free"), "resources": {"tasks": 2}, "disableCpuBinding": True}},
            {"run": {"command": seen("part"), "resources": part}},
            {"run": {"command": "pwd >~/place; id -u >>~/place; id -g >>~/place", "workDir": "/tmp/made/here",
                     "mapUid": 0, "mapGid": 7}},
        ),
        "gpus": workflow(
            {"tasks": 2, "cpusPerTask": 1, "memPerCpu": 60, "gpus": 3},
            {"run": {"command": seen("gpu"), "resources": {"tasks": 1, "gpusPerTask": 2}}},
            {"run": {"command": seen("none")}},
        ),
        "too many gpus": workflow(part | {"gpus": 5}, {"run": {"command": "true"}}),
    })  # fmt: skip


def left(lab, who, *names):
    """Return the text of files in a customer's home."""
    home = f"/home/ldap-users/{who.address}"
    return lab.run("infra", "cat", *(f"{home}/{name}" for name in names)).stdout


def fields(text):
    """Return a line of scontrol's, or lines of env's, as a dictionary."""
    return dict(re.findall(r"(?:^|\s)([\w/:]+)=(\S*)", text))


def test_processes_on_two_nodes_add_up_by_pmix_and_by_pmi2(grid, lab, someone, started):
    grid.wait(someone, started["mpi"], "FINISHED")

    for kind in ("pmix_v4", "pmi2"):
        lines = [line.split() for line in left(lab, someone, f"{kind}.0", f"{kind}.1").splitlines()]
        assert [(rank, size, total) for rank, size, _, total in lines] == [
            ("0", "2", "3"),
            ("1", "2", "3"),
        ], kind
        assert {host for _, _, host, _ in lines} == NODES, kind
    alone = [line.split() for line in left(lab, someone, "none.0", "none.1").splitlines()]
    assert [(rank, size, total) for rank, size, _, total in alone] == [("0", "1", "1")] * 2


def test_a_job_and_its_steps_get_what_they_ask_for(grid, lab, someone, started):
    grid.wait(someone, started["resources"], "FINISHED")

    def said(name):
        return fields(left(lab, someone, name))

    job, environment = said("whole.job"), said("whole.env")
    assert [job[name] for name in ("NumTasks", "CPUs/Task", "NumCPUs", "MinMemoryCPU")] == [
        "2",
        "2",
        "4",
        "60M",
    ]
    assert (said("whole.step")["Tasks"], said("whole.step")["TRES"]) == (
        "2",
        "cpu=4,mem=240M,node=1",
    )
    assert (said("part.step")["Tasks"], said("part.step")["TRES"]) == ("1", "cpu=1,mem=40M,node=1")
    names = ("NTASKS", "CPUS_PER_TASK", "MEM_PER_CPU", "GPUS", "CPUS", "MEM")
    assert [environment[name] for name in names] == ["2", "2", "60", "0", "4", "240"]
    assert [environment[name] for name in ("SLURM_NTASKS", "SLURM_CPUS_PER_TASK")] == ["2", "2"]
    assert (environment["SLURM_CPU_BIND_TYPE"], said("free.env")["SLURM_CPU_BIND_TYPE"]) == (
        "mask_cpu:",
        "none",
    )
    assert left(lab, someone, "place").split() == ["/tmp/made/here", "0", "7"]


def test_a_job_with_gpus_gets_and_pays_them(grid, lab, someone, started):
    grid.wait(someone, started["gpus"], "FINISHED")

    asked, given = fields(left(lab, someone, "gpu.job")), fields(left(lab, someone, "gpu.env"))
    assert (asked["TresPerJob"], asked["NumNodes"]) == ("gres/gpu:3", "2")
    assert "gres/gpu=3" in asked["AllocTRES"].split(",")
    assert "gres/gpu=2" in fields(left(lab, someone, "gpu.step"))["TRES"].split(",")
    names = ("GPUS", "SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES")
    assert [given[name] for name in names] == ["3", "2", "0,1", "0,1"]
    assert not fields(left(lab, someone, "none.env")).keys() & {
        "SLURM_STEP_GPUS",
        "CUDA_VISIBLE_DEVICES",
    }
    job = grid.check_money(someone, started["gpus"])
    resources = Resources(gpus=3, tasks=2, cpus_per_task=1, memory_per_cpu_mb=60)
    assert job["price_per_min_wei"] == billing_oracle.price(resources, PRICES)


def test_a_job_with_more_gpus_than_there_are_waits_says_why_and_costs_nothing(
    grid, someone, started
):
    number = started["too many gpus"]

    def reason():
        return json.loads(someone.run("job", "get", str(number), "--json").stdout)["waits_because"]

    assert wait_until(reason, timeout=30) == "no provider can run it: 1 too small"
    someone.run("job", "cancel", str(number))
    assert grid.wait(someone, number, "CANCELLED")["cost_wei"] == 0
