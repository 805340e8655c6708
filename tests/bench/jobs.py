#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the throughput of the grid with plain Slurm: the same small jobs on the same lab.

The time of plain Slurm starts with the first submission to slurmrestd and ends with the end time of
the last job in slurmdbd. The time of the grid starts when the first workflow is sent to the Job
Definition service and ends with the receipt of the last settlement. The report shows each phase.
"""

import argparse
import contextlib
import json
import os
import platform
import secrets
import statistics
import sys
import time
import tomllib
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tools")]

import lab_users  # noqa: E402
from tests.e2e.conftest import GridClient, Lab, wait_until  # noqa: E402
from tests.e2e.many_customers import connect, one_step  # noqa: E402

from gridstead.adapters.chain.abi import artifact  # noqa: E402
from gridstead.wiring.chain import open_chain  # noqa: E402
from gridstead.workflow.parse import from_graphql  # noqa: E402
from gridstead.workflow.render import render  # noqa: E402

JOBS = 200
CREDITS = 100
TIME_LIMIT_MIN = 104  # the whole minutes that CREDITS pay for on the lab
MEMORY_MB = 32
TIMEOUT_S = 600
POLL_S = 0.2
MIN_RATIO = 0.9  # plain Slurm's time divided by the grid's time
SLURM_TIMES = ("submit", "start", "end")
HOSTS = ("controller", "db", "compute1", "compute2", "infra", "control")
MIN_CPU_SHOWN_S = 0.5
EVENTS = ("JobRequested", "JobMatched", "JobClaimed", "JobStarted", "JobSettled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The times at which the first and the last job reached a state, in seconds since the first
    submission.
    """

    name: str
    first_s: float
    last_s: float


@dataclass(slots=True, kw_only=True)
class Run:
    """One run: its phases, and the CPU seconds by host and systemd unit.

    A key of ``cpu_s_by_unit`` is for example "controller slurmctld".
    """

    phases: tuple[Phase, ...]
    cpu_s_by_unit: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self):
        """The time until the last job has reached the last state."""
        return self.phases[-1].last_s


def main():
    """Run the jobs through Slurm and through the grid; print the ratio, return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="number of jobs in each run")
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of runs; the median of each kind counts"
    )
    options = parser.parse_args()
    lab = Lab(lab_users.lab_grid().folder)
    grid = GridClient(lab)
    connection = connect(grid.customer("bench", CREDITS * options.jobs * (options.rounds + 1)))
    workflow = one_step("true", memory_mb=MEMORY_MB)
    connection.allow(CREDITS * options.jobs * (options.rounds + 1))
    report_progress("warm-up: the customer's account, caches and connections")
    run_through_grid(lab, connection, [workflow] * 4)
    slurm_runs, grid_runs = [], []
    for _ in range(options.rounds):
        with measure_cpu_time(lab, slurm_runs):
            phases = run_through_slurm(lab, connection.customer.address, workflow, options.jobs)
            slurm_runs.append(Run(phases=phases))
        with measure_cpu_time(lab, grid_runs):
            phases = run_through_grid(lab, connection, [workflow] * options.jobs)
            grid_runs.append(Run(phases=phases))
    supervisor = tomllib.loads(lab.run("control", "cat", "/etc/gridstead/supervisor.toml").stdout)
    return report(options, supervisor["chain"]["confirmations"], slurm_runs, grid_runs)


@contextlib.contextmanager
def measure_cpu_time(lab, runs):
    """Add the CPU seconds of the ``with`` block to the run that the block appends to ``runs``."""
    cpu_s_before = cpu_seconds(lab)
    yield
    cpu_s_after = cpu_seconds(lab)
    for unit, total_s in cpu_s_after.items():
        used_s = total_s - cpu_s_before.get(unit, 0.0)
        if used_s >= MIN_CPU_SHOWN_S:
            runs[-1].cpu_s_by_unit[unit] = used_s


def cpu_seconds(lab):
    """Return the CPU seconds of every unit since its start, by host and unit."""
    script = (
        "systemctl list-units --type=service,scope --plain --no-legend | cut -d' ' -f1 | "
        "xargs systemctl show -p Id -p CPUUsageNSec"
    )
    seconds = {}
    for host in HOSTS:
        for block in lab.sh(host, script).split("\n\n"):
            properties = {}
            for line in block.split():
                name, _, value = line.partition("=")
                properties[name] = value
            usage = properties.get("CPUUsageNSec", "")
            if usage.isdigit():
                unit = properties["Id"].removesuffix(".service")
                seconds[f"{host} {unit}"] = int(usage) / 1e9
    return seconds


def run_through_slurm(lab, address, workflow, jobs):
    """Run the jobs in plain Slurm and return the phases."""
    report_progress(f"{jobs} jobs through plain Slurm")
    contract = f"0x{secrets.token_hex(20)}"
    uid, gid = lab.sh("controller", f"id -u {address}; id -g {address}").split()
    parsed_workflow = from_graphql(workflow)
    resources = parsed_workflow.resources
    parameters = {
        "address": address,
        "uid": int(uid),
        "gid": int(gid),
        "jobs": jobs,
        "script": render(parsed_workflow),
        "contract": contract,
        "time_limit_min": TIME_LIMIT_MIN,
        "resources": {
            "gpus": 0,
            "tasks": resources.tasks,
            "cpus_per_task": resources.cpus_per_task,
            "memory_per_cpu_mb": resources.mem_per_cpu,
        },
    }
    program = (CHECKOUT / "tests/bench/plain_slurm.py").read_text()
    python = ("runuser", "-u", "slurm", "--", "/opt/gridstead/venv/bin/python", "-c", program)
    start_s = float(
        lab.run("controller", *python, input=json.dumps(parameters), timeout=TIMEOUT_S).stdout
    )

    def completed_records():
        """Return the records of the jobs, or None if a job has not completed yet."""
        records = []
        for record in lab.records_since(start_s):
            is_of_this_run = contract in record["admincomment"]
            if is_of_this_run and record["state"] == "COMPLETED":
                records.append(record)
        return records if len(records) == jobs else None

    return slurm_phases(wait_until(completed_records, timeout=TIMEOUT_S), start_s)


def run_through_grid(lab, connection, workflows):
    """Run the jobs through the grid and return the phases."""
    report_progress(f"{len(workflows)} jobs through the grid")
    chain = open_chain(connection.settings.chain)
    first_block, start_s = chain.ledger.head().number + 1, time.time()
    numbers = set(connection.submit_at_once(workflows, credits_=CREDITS))

    def all_are_settled():
        settlements = log_entries(chain, first_block, ["JobSettled"])
        return len(settlements) >= len(numbers)

    wait_until(all_are_settled, timeout=TIMEOUT_S, every=POLL_S)
    duration_s = time.time() - start_s
    phases = []
    for event, times in job_history(chain, first_block, numbers).items():
        assert len(times) == len(numbers)
        phases.append(phase_from_times(f"chain: {event}", times.values(), start_s))
    phases += slurm_phases(records_of_jobs(lab, start_s, numbers), start_s)
    phases.append(Phase(name="last receipt seen", first_s=duration_s, last_s=duration_s))
    return tuple(phases)


def records_of_jobs(lab, since, numbers):
    """Return slurmdbd's records of the grid's jobs.

    Fails unless each job has exactly one record, with state COMPLETED.
    """
    job_names = sorted(f"0x{number:064x}" for number in numbers)
    records = []
    for record in lab.records_since(since):
        if record["jobname"] in job_names:
            assert record["state"] == "COMPLETED"
            records.append(record)
    names_of_records = sorted(record["jobname"] for record in records)
    assert names_of_records == job_names, "each job ran once"
    return records


def job_history(chain, first_block, numbers):
    """Return the time of each event of each job, by event name and job number (Unix seconds)."""
    entries = log_entries(chain, first_block, EVENTS)
    block_times = {}
    for block in {entry["blockNumber"] for entry in entries}:
        block_times[block] = chain.ledger.block(int(block, 16)).timestamp
    history = {}
    times_by_topic = {}
    for name in EVENTS:
        history[name] = {}
        # The same dict as in history, so the loop below fills both.
        times_by_topic[artifact("MetaScheduler").events[name].topic] = history[name]
    for entry in entries:
        number = int(entry["topics"][1], 16)
        if number in numbers:
            times_by_topic[entry["topics"][0]][number] = block_times[entry["blockNumber"]]
    return history


def log_entries(chain, first_block, names):
    """Return the contracts' log entries of these events since a block."""
    events = artifact("MetaScheduler").events
    log_filter = {
        "address": chain.contracts.meta_scheduler.address,
        "fromBlock": hex(first_block),
        "toBlock": "latest",
        # The inner list selects entries that have one of these topics.
        "topics": [[events[name].topic for name in names]],
    }
    return chain.node.ask("eth_getLogs", log_filter)


def slurm_phases(records, start_s):
    """Return the phases of submission, start and end in Slurm."""
    phases = []
    for field_name in SLURM_TIMES:
        times = [int(record[field_name]) for record in records]
        phases.append(phase_from_times(f"slurm: {field_name}", times, start_s))
    return tuple(phases)


def phase_from_times(name, times, start_s):
    """Return a phase from the Unix times at which jobs reached its state."""
    return Phase(name=name, first_s=min(times) - start_s, last_s=max(times) - start_s)


def print_run(title, run):
    """Print the phases and the CPU seconds of a run."""
    print(f"\n{title}: seconds since the first submission")
    print(f"{'':24} {'first job':>10} {'last job':>10}")
    for phase in run.phases:
        # Slurm rounds its times down to seconds, so the first time can be negative.
        first_s = max(0.0, phase.first_s)
        print(f"{phase.name:24} {first_s:10.1f} {phase.last_s:10.1f}")
    units = [f"{unit} {cpu_s:.1f}" for unit, cpu_s in units_by_cpu_time(run)]
    print("CPU seconds: " + ", ".join(units))


def report(options, confirmations, slurm_runs, grid_runs):
    """Print each run, the machine and the ratio of the medians; return the exit code."""
    for run in slurm_runs:
        print_run("plain Slurm", run)
    for run in grid_runs:
        print_run("grid", run)
    slurm_s = statistics.median(run.seconds for run in slurm_runs)
    grid_s = statistics.median(run.seconds for run in grid_runs)
    load = os.getloadavg()
    print(f"\nmachine: {os.cpu_count()} cores, {platform.machine()}, load {load[0]:.1f}")
    print(
        f"jobs {options.jobs}, rounds {options.rounds}, confirmations {confirmations}, "
        "one block per second, 30 M gas per block"
    )
    ratio = slurm_s / grid_s
    print(
        f"plain Slurm {slurm_s:.1f} s, grid {grid_s:.1f} s, "
        f"ratio {ratio:.2f} (at least {MIN_RATIO})"
    )
    return 0 if ratio >= MIN_RATIO else 1


def units_by_cpu_time(run):
    """Return pairs of unit and CPU seconds. The unit that used most CPU time is first."""
    return sorted(run.cpu_s_by_unit.items(), key=itemgetter(1), reverse=True)


def report_progress(line):
    """Print the action that the benchmark starts now."""
    print(f"bench: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
