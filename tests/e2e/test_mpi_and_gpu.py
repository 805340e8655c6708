# SPDX-License-Identifier: Apache-2.0
"""Tests of paid MPI jobs on two nodes and of paid jobs with GPUs.

The lab's GPUs are GRES without devices. The jobs run at the same time. Each step writes its
results to files in the customer's home.
"""

import json
import re

import pytest
from tests import billing_oracle
from tests.e2e import many_customers
from tests.e2e.conftest import wait_until

from gridstead.domain.jobs.billing import Prices, Resources

pytestmark = pytest.mark.steps

CREDIT = 10**18
PRICES = Prices(
    gpu_per_min=85 * CREDIT // 10,
    cpu_per_min=95 * CREDIT // 100,
    memory_mb_per_min=8 * CREDIT // 100_000,
)
# Each process adds its rank + 1 to a sum over all processes. It prints its rank, the number of
# processes, its host and the sum.
OPEN_MPI_PROGRAM = """
from mpi4py import MPI
world = MPI.COMM_WORLD
print(world.rank, world.size, MPI.Get_processor_name(), world.allreduce(world.rank + 1))
"""
# The same program with MPICH. The numbers are the values of MPI_COMM_WORLD, MPI_INT and MPI_SUM in
# MPICH.
MPICH_PROGRAM = """
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
# Both nodes are containers on one machine. Without these variables, MPI uses shared memory between
# the nodes, which fails.
TCP_VARIABLES = {"UCX_TLS": "tcp", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"}
TWO_NODES = {"tasks": 2, "cpusPerTask": 40, "memPerCpu": 16, "gpus": 0}  # a node has 64 threads
NODES = {"compute1", "compute2"}


def variables(pairs):
    return [{"key": key, "value": value} for key, value in pairs.items()]


def mpi_step(kind, program):
    command = f"python3 - <<'PROGRAM' >~/{kind}.$SLURM_PROCID\n{program}PROGRAM\n"
    return {"run": {"command": command, "mpi": kind, "resources": {"tasks": 2}}}


# This script writes Slurm's description of the job and the step, and the step's environment.
RECORD_RESOURCES = """
scontrol --oneliner show job "$SLURM_JOB_ID" >~/NAME.job
scontrol --oneliner show step "$SLURM_JOB_ID.$SLURM_STEP_ID" >~/NAME.step
env >~/NAME.env
"""


def record_resources(name):
    return RECORD_RESOURCES.replace("NAME", name)


def workflow(resources, *steps, **fields):
    return {"resources": resources, "steps": steps, **fields}


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("mpi-and-gpu")


@pytest.fixture(scope="module")
def submitted_jobs(customer):
    """Submit the jobs and return their numbers."""
    part_of_job = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 40}
    return many_customers.submit_named(customer, {
        "mpi": workflow(
            TWO_NODES,
            mpi_step("pmix_v4", OPEN_MPI_PROGRAM),
            mpi_step("pmi2", MPICH_PROGRAM),
            mpi_step("none", OPEN_MPI_PROGRAM),
            env=variables(TCP_VARIABLES),
        ),
        "resources": workflow(
            {"tasks": 2, "cpusPerTask": 2, "memPerCpu": 60, "gpus": 0},
            {"run": {"command": record_resources("whole"), "resources": {"tasks": 2}}},
            {"run": {"command": record_resources("free"), "resources": {"tasks": 2},
                     "disableCpuBinding": True}},
            {"run": {"command": record_resources("part"), "resources": part_of_job}},
            {"run": {"command": "pwd >~/place; id -u >>~/place; id -g >>~/place",
                     "workDir": "/tmp/made/here", "mapUid": 0, "mapGid": 7}},
        ),
        "gpus": workflow(
            {"tasks": 2, "cpusPerTask": 1, "memPerCpu": 60, "gpus": 3},
            {"run": {"command": record_resources("gpu"),
                     "resources": {"tasks": 1, "gpusPerTask": 2}}},
            {"run": {"command": record_resources("none")}},
        ),
        "too many gpus": workflow(part_of_job | {"gpus": 5}, {"run": {"command": "true"}}),
    })  # fmt: skip


def read_files(lab, user, *names):
    """Return the text of files in a customer's home."""
    home = f"/home/ldap-users/{user.address}"
    return lab.run("infra", "cat", *(f"{home}/{name}" for name in names)).stdout


def parse_fields(text):
    """Return the output of scontrol or env, for example "NumCPUs=4 NumNodes=2", as a dictionary."""
    return dict(re.findall(r"(?:^|\s)([\w/:]+)=(\S*)", text))


def mpi_results(lab, user, kind):
    """Return the rank, the size, the sum and the host of each process of a step."""
    results = []
    for line in read_files(lab, user, f"{kind}.0", f"{kind}.1").splitlines():
        rank, size, host, total = line.split()
        results.append((rank, size, total, host))
    return results


def test_mpi_processes_on_two_nodes_communicate_by_pmix_and_pmi2(
    grid, lab, customer, submitted_jobs
):
    grid.wait(customer, submitted_jobs["mpi"], "FINISHED")

    for kind in ("pmix_v4", "pmi2"):
        results = mpi_results(lab, customer, kind)
        ranks, sizes, sums, hosts = zip(*results, strict=True)
        assert ranks == ("0", "1"), kind
        assert sizes == ("2", "2"), kind
        assert sums == ("3", "3"), kind
        assert set(hosts) == NODES, kind
    # Without MPI, each process is the only process of its own world.
    for rank, size, total, _ in mpi_results(lab, customer, "none"):
        assert (rank, size, total) == ("0", "1", "1")


def test_a_job_and_its_steps_get_the_requested_resources(grid, lab, customer, submitted_jobs):
    grid.wait(customer, submitted_jobs["resources"], "FINISHED")

    def recorded(name):
        return parse_fields(read_files(lab, customer, name))

    job, environment = recorded("whole.job"), recorded("whole.env")
    assert (job["NumTasks"], job["CPUs/Task"]) == ("2", "2")
    assert (job["NumCPUs"], job["MinMemoryCPU"]) == ("4", "60M")
    whole_job, part_of_job = recorded("whole.step"), recorded("part.step")
    assert (whole_job["Tasks"], whole_job["TRES"]) == ("2", "cpu=4,mem=240M,node=1")
    assert (part_of_job["Tasks"], part_of_job["TRES"]) == ("1", "cpu=1,mem=40M,node=1")
    names = ("NTASKS", "CPUS_PER_TASK", "MEM_PER_CPU", "GPUS", "CPUS", "MEM")
    assert [environment[name] for name in names] == ["2", "2", "60", "0", "4", "240"]
    assert [environment[name] for name in ("SLURM_NTASKS", "SLURM_CPUS_PER_TASK")] == ["2", "2"]
    assert environment["SLURM_CPU_BIND_TYPE"] == "mask_cpu:"
    assert recorded("free.env")["SLURM_CPU_BIND_TYPE"] == "none"
    assert read_files(lab, customer, "place").split() == ["/tmp/made/here", "0", "7"]


def test_a_job_with_gpus_gets_and_pays_for_the_gpus(grid, lab, customer, submitted_jobs):
    grid.wait(customer, submitted_jobs["gpus"], "FINISHED")

    job_fields = parse_fields(read_files(lab, customer, "gpu.job"))
    environment = parse_fields(read_files(lab, customer, "gpu.env"))
    assert job_fields["TresPerJob"] == "gres/gpu:3"
    assert job_fields["NumNodes"] == "2"
    assert "gres/gpu=3" in job_fields["AllocTRES"].split(",")
    assert "gres/gpu=2" in parse_fields(read_files(lab, customer, "gpu.step"))["TRES"].split(",")
    names = ("GPUS", "SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES")
    assert [environment[name] for name in names] == ["3", "2", "0,1", "0,1"]
    without_gpus = parse_fields(read_files(lab, customer, "none.env"))
    assert not without_gpus.keys() & {"SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES"}
    job = grid.check_money(customer, submitted_jobs["gpus"])
    resources = Resources(gpus=3, tasks=2, cpus_per_task=1, memory_per_cpu_mb=60)
    assert job["price_per_min_wei"] == billing_oracle.price(resources, PRICES)


def test_a_job_with_too_many_gpus_waits_with_a_reason_and_costs_nothing(
    grid, customer, submitted_jobs
):
    number = submitted_jobs["too many gpus"]

    def reason():
        return json.loads(customer.run("job", "get", str(number), "--json").stdout)["waits_because"]

    # On a lab that is used again, a provider that has left the grid may be counted before.
    text = wait_until(reason, timeout=30)
    assert text.startswith("no provider can run it: ")
    assert text.endswith("1 too small")
    customer.run("job", "cancel", str(number))
    assert grid.wait(customer, number, "CANCELLED")["cost_wei"] == 0
