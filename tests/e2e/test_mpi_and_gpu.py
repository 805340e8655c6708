# SPDX-License-Identifier: Apache-2.0
"""Paid MPI jobs on two nodes, and paid jobs with GPUs.

The lab's GPUs are GRES without devices. The jobs run at the same time, and each step writes its
observations to its customer's home.
"""

import json
import re

import pytest
from tests import billing_oracle
from tests.e2e import many_customers
from tests.e2e.conftest import wait_until

from gridstead.domain.jobs.billing import Prices, Resources

pytestmark = pytest.mark.jobs

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
# Both nodes are containers on one machine. Without these settings, MPI tries to use shared memory
# between the nodes.
OVER_TCP = {"UCX_TLS": "tcp", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"}
TWO_NODES = {"tasks": 2, "cpusPerTask": 40, "memPerCpu": 16, "gpus": 0}  # a node has 64 threads
NODES = {"compute1", "compute2"}


def variables(pairs):
    return [{"key": key, "value": value} for key, value in pairs.items()]


def mpi(kind, program):
    command = f"python3 - <<'PROGRAM' >~/{kind}.$SLURM_PROCID\n{program}PROGRAM\n"
    return {"run": {"command": command, "mpi": kind, "resources": {"tasks": 2}}}


# Writes Slurm's description of the job and the step, and the step's environment.
RECORD = """
scontrol --oneliner show job "$SLURM_JOB_ID" >~/NAME.job
scontrol --oneliner show step "$SLURM_JOB_ID.$SLURM_STEP_ID" >~/NAME.step
env >~/NAME.env
"""


def record(name):
    return RECORD.replace("NAME", name)


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
            TWO_NODES, mpi("pmix_v4", OPEN_MPI), mpi("pmi2", MPICH), mpi("none", OPEN_MPI),
            env=variables(OVER_TCP),
        ),
        "resources": workflow(
            {"tasks": 2, "cpusPerTask": 2, "memPerCpu": 60, "gpus": 0},
            {"run": {"command": record("whole"), "resources": {"tasks": 2}}},
            {"run": {"command": record("free"), "resources": {"tasks": 2},
                     "disableCpuBinding": True}},
            {"run": {"command": record("part"), "resources": part}},
            {"run": {"command": "pwd >~/place; id -u >>~/place; id -g >>~/place",
                     "workDir": "/tmp/made/here", "mapUid": 0, "mapGid": 7}},
        ),
        "gpus": workflow(
            {"tasks": 2, "cpusPerTask": 1, "memPerCpu": 60, "gpus": 3},
            {"run": {"command": record("gpu"), "resources": {"tasks": 1, "gpusPerTask": 2}}},
            {"run": {"command": record("none")}},
        ),
        "too many gpus": workflow(part | {"gpus": 5}, {"run": {"command": "true"}}),
    })  # fmt: skip


def read_files(lab, user, *names):
    """Return the text of files in a customer's home."""
    home = f"/home/ldap-users/{user.address}"
    return lab.run("infra", "cat", *(f"{home}/{name}" for name in names)).stdout


def fields(text):
    """Return the output of scontrol or env as a dictionary."""
    return dict(re.findall(r"(?:^|\s)([\w/:]+)=(\S*)", text))


def mpi_results(lab, user, kind):
    """Return rank, size, sum and host of each process of a step."""
    results = []
    for line in read_files(lab, user, f"{kind}.0", f"{kind}.1").splitlines():
        rank, size, host, total = line.split()
        results.append((rank, size, total, host))
    return results


def test_mpi_processes_on_two_nodes_communicate_by_pmix_and_pmi2(grid, lab, someone, started):
    grid.wait(someone, started["mpi"], "FINISHED")

    for kind in ("pmix_v4", "pmi2"):
        results = mpi_results(lab, someone, kind)
        assert [result[:3] for result in results] == [("0", "2", "3"), ("1", "2", "3")], kind
        assert {host for _, _, _, host in results} == NODES, kind
    separate = mpi_results(lab, someone, "none")
    assert [result[:3] for result in separate] == [("0", "1", "1")] * 2


def test_a_job_and_its_steps_get_the_requested_resources(grid, lab, someone, started):
    grid.wait(someone, started["resources"], "FINISHED")

    def recorded(name):
        return fields(read_files(lab, someone, name))

    job, environment = recorded("whole.job"), recorded("whole.env")
    assert (job["NumTasks"], job["CPUs/Task"]) == ("2", "2")
    assert (job["NumCPUs"], job["MinMemoryCPU"]) == ("4", "60M")
    whole, part = recorded("whole.step"), recorded("part.step")
    assert (whole["Tasks"], whole["TRES"]) == ("2", "cpu=4,mem=240M,node=1")
    assert (part["Tasks"], part["TRES"]) == ("1", "cpu=1,mem=40M,node=1")
    names = ("NTASKS", "CPUS_PER_TASK", "MEM_PER_CPU", "GPUS", "CPUS", "MEM")
    assert [environment[name] for name in names] == ["2", "2", "60", "0", "4", "240"]
    assert [environment[name] for name in ("SLURM_NTASKS", "SLURM_CPUS_PER_TASK")] == ["2", "2"]
    assert environment["SLURM_CPU_BIND_TYPE"] == "mask_cpu:"
    assert recorded("free.env")["SLURM_CPU_BIND_TYPE"] == "none"
    assert read_files(lab, someone, "place").split() == ["/tmp/made/here", "0", "7"]


def test_a_job_with_gpus_gets_and_pays_for_the_gpus(grid, lab, someone, started):
    grid.wait(someone, started["gpus"], "FINISHED")

    job_fields, environment = (
        fields(read_files(lab, someone, "gpu.job")),
        fields(read_files(lab, someone, "gpu.env")),
    )
    assert (job_fields["TresPerJob"], job_fields["NumNodes"]) == ("gres/gpu:3", "2")
    assert "gres/gpu=3" in job_fields["AllocTRES"].split(",")
    assert "gres/gpu=2" in fields(read_files(lab, someone, "gpu.step"))["TRES"].split(",")
    names = ("GPUS", "SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES")
    assert [environment[name] for name in names] == ["3", "2", "0,1", "0,1"]
    without_gpus = fields(read_files(lab, someone, "none.env"))
    assert not without_gpus.keys() & {"SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES"}
    job = grid.check_money(someone, started["gpus"])
    resources = Resources(gpus=3, tasks=2, cpus_per_task=1, memory_per_cpu_mb=60)
    assert job["price_per_min_wei"] == billing_oracle.price(resources, PRICES)


def test_a_job_with_too_many_gpus_waits_with_a_reason_and_costs_nothing(grid, someone, started):
    number = started["too many gpus"]

    def reason():
        return json.loads(someone.run("job", "get", str(number), "--json").stdout)["waits_because"]

    assert wait_until(reason, timeout=30) == "no provider can run it: 1 too small"
    someone.run("job", "cancel", str(number))
    assert grid.wait(someone, number, "CANCELLED")["cost_wei"] == 0
