#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the throughput of the grid with plain Slurm: the same small jobs on the same lab.

The time of plain Slurm ("straight") starts with the first submission to slurmrestd and ends with
the last end in slurmdbd. The time of the grid starts with the first workflow that is sent to the
Job Definition service and ends with the receipt of the last settlement. The report has each phase.
"""

import argparse
import contextlib
import json
import os
import platform
import secrets
import sys
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tools")]

import lab_users  # noqa: E402
from tests.e2e.conftest import GridClient, Lab, wait_until  # noqa: E402
from tests.e2e.many_customers import join, one_step  # noqa: E402

from gridstead.adapters.chain.abi import artifact  # noqa: E402
from gridstead.wiring.chain import open_chain  # noqa: E402
from gridstead.workflow.parse import from_graphql  # noqa: E402
from gridstead.workflow.render import render  # noqa: E402

JOBS = 200
CREDITS = 100
TIME_LIMIT_MIN = 104
MEMORY_MB = 32
TIMEOUT_S = 600
POLL_S = 0.2
MIN_RATIO = 0.5
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
    first: float
    last: float


@dataclass(slots=True, kw_only=True)
class Run:
    """One run: its phases, and the CPU seconds of each systemd unit, by host and unit."""

    phases: tuple[Phase, ...]
    cpu: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self):
        return self.phases[-1].last


def main():
    """Run the jobs in both ways and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument(
        "--rounds", type=int, default=1, help="number of runs; the best run of each way counts"
    )
    options = parser.parse_args()
    lab = Lab(lab_users.lab_grid().folder)
    grid = GridClient(lab)
    member = join(grid.customer("bench", CREDITS * options.jobs * (options.rounds + 1)))
    workflow = one_step("true", memory_mb=MEMORY_MB)
    report_progress("warm-up: the customer's account, caches and connections")
    through_grid(lab, member, [workflow] * 4)
    straight, ours = [], []
    for _ in range(options.rounds):
        with profiled(lab, straight):
            phases = through_slurm(lab, member.customer.address, workflow, options.jobs)
            straight.append(Run(phases=phases))
        with profiled(lab, ours):
            phases = through_grid(lab, member, [workflow] * options.jobs)
            ours.append(Run(phases=phases))
    supervisor = tomllib.loads(lab.run("control", "cat", "/etc/gridstead/supervisor.toml").stdout)
    return report(options, supervisor["chain"]["confirmations"], straight, ours)


@contextlib.contextmanager
def profiled(lab, runs):
    """Add the CPU seconds to the run that the body appends."""
    before = cpu_seconds(lab)
    yield
    after = cpu_seconds(lab)
    for unit, total in after.items():
        spent = total - before.get(unit, 0.0)
        if spent >= MIN_CPU_SHOWN_S:
            runs[-1].cpu[unit] = spent


def cpu_seconds(lab):
    """Return the CPU seconds of every unit since its start, by host and unit."""
    script = (
        "systemctl list-units --type=service,scope --plain --no-legend | cut -d' ' -f1 | "
        "xargs systemctl show -p Id -p CPUUsageNSec"
    )
    seconds = {}
    for host in HOSTS:
        for block in lab.sh(host, script).split("\n\n"):
            properties = dict(line.split("=", 1) for line in block.split())
            usage = properties.get("CPUUsageNSec", "")
            if usage.isdigit():
                unit = properties["Id"].removesuffix(".service")
                seconds[f"{host} {unit}"] = int(usage) / 1e9
    return seconds


def through_slurm(lab, address, workflow, jobs):
    """Run the jobs in plain Slurm and return the phases."""
    report_progress(f"{jobs} jobs straight to slurmrestd")
    contract = f"0x{secrets.token_hex(20)}"
    uid, gid = lab.sh("controller", f"id -u {address}; id -g {address}").split()
    parsed = from_graphql(workflow)
    resources = parsed.resources
    task = {
        "address": address,
        "uid": int(uid),
        "gid": int(gid),
        "jobs": jobs,
        "script": render(parsed),
        "contract": contract,
        "time_limit_min": TIME_LIMIT_MIN,
        "resources": {
            "gpus": 0,
            "tasks": resources.tasks,
            "cpus_per_task": resources.cpus_per_task,
            "memory_per_cpu_mb": resources.mem_per_cpu,
        },
    }
    program = (CHECKOUT / "tests/bench/straight.py").read_text()
    python = ("runuser", "-u", "slurm", "--", "/opt/gridstead/venv/bin/python", "-c", program)
    start_s = float(
        lab.run("controller", *python, input=json.dumps(task), timeout=TIMEOUT_S).stdout
    )

    def records():
        own = [
            record for record in slurm_records(lab, start_s) if contract in record["admincomment"]
        ]
        completed = [record for record in own if record["state"] == "COMPLETED"]
        return own if len(own) == len(completed) == jobs else None

    return slurm_phases(wait_until(records, timeout=TIMEOUT_S), start_s)


def through_grid(lab, member, workflows):
    """Run the jobs through the grid and return the phases."""
    report_progress(f"{len(workflows)} jobs through the grid")
    chain = open_chain(member.settings.chain)
    first_block, start_s = chain.ledger.head().number + 1, time.time()
    numbers = set(member.submit(workflows, credits_=CREDITS))
    wait_until(
        lambda: len(logs(chain, first_block, ["JobSettled"])) >= len(numbers),
        timeout=TIMEOUT_S,
        every=POLL_S,
    )
    end_s = time.time() - start_s
    times = job_history(chain, first_block, numbers)
    assert all(len(times[name]) == len(numbers) for name in EVENTS)
    names = {f"0x{number:064x}" for number in numbers}
    records = [record for record in slurm_records(lab, start_s) if record["jobname"] in names]
    assert sorted(record["jobname"] for record in records) == sorted(names), "each job ran once"
    assert {record["state"] for record in records} == {"COMPLETED"}
    on_chain = [phase(f"chain: {name}", times[name].values(), start_s) for name in EVENTS]
    seen = Phase(name="last receipt seen", first=end_s, last=end_s)
    return (*on_chain, *slurm_phases(records, start_s), seen)


def job_history(chain, first_block, numbers):
    """Return the time of each event of each job, by event name and job number (Unix seconds)."""
    names = {event.topic: name for name, event in artifact("MetaScheduler").events.items()}
    entries = logs(chain, first_block, EVENTS)
    blocks = {entry["blockNumber"] for entry in entries}
    times = {block: chain.ledger.block(int(block, 16)).timestamp for block in blocks}
    history = {name: {} for name in EVENTS}
    for entry in entries:
        number = int(entry["topics"][1], 16)
        if number in numbers:
            history[names[entry["topics"][0]]][number] = times[entry["blockNumber"]]
    return history


def logs(chain, first_block, names):
    """Return the contracts' log entries of these events since a block."""
    events = artifact("MetaScheduler").events
    log_filter = {
        "address": chain.contracts.meta_scheduler.address,
        "fromBlock": hex(first_block),
        "toBlock": "latest",
        "topics": [[events[name].topic for name in names]],
    }
    return chain.node.ask("eth_getLogs", log_filter)


def slurm_records(lab, since):
    """Return slurmdbd's records of jobs submitted since a time. All times are Unix seconds."""
    fields = ("jobname", "state", "submit", "start", "end", "admincomment")
    text = lab.sh(
        "controller",
        "TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -n -X -D --parsable2 "
        f"-S uts{int(since)} -E now+1day -o {','.join(fields)}",
    )
    records = [dict(zip(fields, line.split("|"), strict=True)) for line in text.splitlines()]
    return [record for record in records if int(record["submit"]) >= int(since)]


def slurm_phases(records, start_s):
    """Return the phases of submission, start and end in Slurm."""
    phases = []
    for field_name in SLURM_TIMES:
        times = [int(record[field_name]) for record in records]
        phases.append(phase(f"slurm: {field_name}", times, start_s))
    return tuple(phases)


def phase(name, times, start_s):
    """Return a phase from Unix times."""
    return Phase(name=name, first=min(times) - start_s, last=max(times) - start_s)


def report(options, confirmations, straight, ours):
    """Print the phases of each run, the machine, and the ratio of the best runs."""
    for title, runs in (("straight", straight), ("grid", ours)):
        for run in runs:
            print(f"\n{title}: seconds since the first submission")
            print(f"{'':24} {'first job':>10} {'last job':>10}")
            for run_phase in run.phases:
                first_s = max(0.0, run_phase.first)
                print(f"{run_phase.name:24} {first_s:10.1f} {run_phase.last:10.1f}")
            units = [f"{unit} {spent:.1f}" for unit, spent in by_cpu_time(run)]
            print("CPU seconds: " + ", ".join(units))
    best_straight, best_ours = (min(run.seconds for run in runs) for runs in (straight, ours))
    load = os.getloadavg()
    print(f"\nmachine: {os.cpu_count()} cores, {platform.machine()}, load {load[0]:.1f}")
    print(
        f"jobs {options.jobs}, rounds {options.rounds}, confirmations {confirmations}, "
        "one block per second, 30 M gas per block"
    )
    ratio = best_straight / best_ours
    print(
        f"straight {best_straight:.1f} s, grid {best_ours:.1f} s, "
        f"ratio {ratio:.2f} (at least {MIN_RATIO})"
    )
    return 0 if ratio >= MIN_RATIO else 1


def by_cpu_time(run):
    """Return the units and their CPU seconds, the largest first."""
    return sorted(run.cpu.items(), key=lambda item: -item[1])


def report_progress(line):
    """Print the next action."""
    print(f"bench: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
