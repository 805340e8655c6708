#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much the grid costs beside plain Slurm: the same trivial jobs through both, on one lab, one
after the other.

Straight: from the first submission to slurmrestd until the last end in slurmdbd. Grid: from the
first workflow sent to the Job Definition service until the last settlement's receipt is seen. What
the grid waits for is told phase by phase.
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
sys.path.insert(0, str(CHECKOUT))

from tests.e2e.conftest import Grid, Lab, people, wait_until  # noqa: E402
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
BAR = 0.5
SLURM_TIMES = ("submit", "start", "end")
HOSTS = ("controller", "db", "compute1", "compute2", "infra", "control")
CPU_SHOWN_S = 0.5
MILESTONES = ("JobRequested", "JobMatched", "JobClaimed", "JobStarted", "JobSettled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """When the first and the last job came to a point of its way, seconds since the first
    submission.
    """

    name: str
    first: float
    last: float


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of one way: its phases, and the CPU seconds that each unit of each host took in it."""

    phases: tuple[Phase, ...]
    cpu: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self):
        return self.phases[-1].last


def main():
    """Run both ways and print the ratio."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=JOBS)
    options.add_argument(
        "--rounds", type=int, default=1, help="how often; the best of each way counts"
    )
    chosen = options.parse_args()
    lab = Lab(people.lab_grid().folder)
    grid = Grid(lab)
    member = join(grid.customer("bench", CREDITS * chosen.jobs * (chosen.rounds + 1)))
    workflow = one_step("true", memory_mb=MEMORY_MB)
    tell("warming up: the customer's account, caches and connections")
    through_grid(lab, member, [workflow] * 4)
    straight, ours = [], []
    for _ in range(chosen.rounds):
        with profiled(lab, straight):
            phases = through_slurm(lab, member.customer.address, workflow, chosen.jobs)
            straight.append(Run(phases=phases))
        with profiled(lab, ours):
            phases = through_grid(lab, member, [workflow] * chosen.jobs)
            ours.append(Run(phases=phases))
    supervisor = tomllib.loads(lab.run("control", "cat", "/etc/gridstead/supervisor.toml").stdout)
    return report(chosen, supervisor["chain"]["confirmations"], straight, ours)


@contextlib.contextmanager
def profiled(lab, runs):
    """Give the run that the body appends its CPU seconds."""
    before = cpu_seconds(lab)
    yield
    after = cpu_seconds(lab)
    runs[-1].cpu = {
        unit: spent
        for unit in after
        if (spent := after[unit] - before.get(unit, 0.0)) >= CPU_SHOWN_S
    }


def cpu_seconds(lab):
    """Return the CPU seconds of every unit so far, by host and unit."""
    script = (
        "systemctl list-units --type=service,scope --plain --no-legend | cut -d' ' -f1 | "
        "xargs systemctl show -p Id -p CPUUsageNSec"
    )
    found = {}
    for host in HOSTS:
        for block in lab.sh(host, script).split("\n\n"):
            told = dict(line.split("=", 1) for line in block.split())
            if told.get("CPUUsageNSec", "").isdigit():
                found[f"{host} {told['Id'].removesuffix('.service')}"] = (
                    int(told["CPUUsageNSec"]) / 1e9
                )
    return found


def through_slurm(lab, address, workflow, jobs):
    """Run the jobs in plain Slurm and return the phases."""
    tell(f"{jobs} jobs straight to slurmrestd")
    contract = f"0x{secrets.token_hex(20)}"
    uid, gid = lab.sh("controller", f"id -u {address}; id -g {address}").split()
    checked = from_graphql(workflow)
    asked = checked.resources
    task = {
        "address": address,
        "uid": int(uid),
        "gid": int(gid),
        "jobs": jobs,
        "script": render(checked),
        "contract": contract,
        "time_limit_min": TIME_LIMIT_MIN,
        "resources": {
            "gpus": 0,
            "tasks": asked.tasks,
            "cpus_per_task": asked.cpus_per_task,
            "memory_per_cpu_mb": asked.mem_per_cpu,
        },
    }
    program = (CHECKOUT / "tests/bench/straight.py").read_text()
    python = ("runuser", "-u", "slurm", "--", "/opt/gridstead/venv/bin/python", "-c", program)
    began = float(lab.run("controller", *python, input=json.dumps(task), timeout=TIMEOUT_S).stdout)

    def records():
        found = [one for one in slurm_records(lab, began) if contract in one["admincomment"]]
        return (
            found
            if len(found) == jobs and all(one["state"] == "COMPLETED" for one in found)
            else None
        )

    return slurm_phases(wait_until(records, timeout=TIMEOUT_S), began)


def through_grid(lab, member, workflows):
    """Run the jobs through the grid and return the phases."""
    tell(f"{len(workflows)} jobs through the grid")
    chain = open_chain(member.settings.chain)
    first_block, began = chain.ledger.head().number + 1, time.time()
    numbers = set(member.submit(workflows, credits_=CREDITS))
    wait_until(
        lambda: len(logs(chain, first_block, ["JobSettled"])) >= len(numbers),
        timeout=TIMEOUT_S,
        every=POLL_S,
    )
    ended = time.time()
    times = job_history(chain, first_block, numbers)
    assert all(len(times[name]) == len(numbers) for name in MILESTONES)
    names = {f"0x{number:064x}" for number in numbers}
    records = [one for one in slurm_records(lab, began) if one["jobname"] in names]
    assert sorted(one["jobname"] for one in records) == sorted(names), "each job ran once"
    assert {one["state"] for one in records} == {"COMPLETED"}
    on_chain = [phase(f"chain: {name}", times[name].values(), began) for name in MILESTONES]
    seen = Phase(name="last receipt seen", first=ended - began, last=ended - began)
    return (*on_chain, *slurm_phases(records, began), seen)


def job_history(chain, first_block, numbers):
    """Return when each job came to each milestone, by the milestone's name and the job's number;
    Unix seconds.
    """
    names = {event.topic: name for name, event in artifact("MetaScheduler").events.items()}
    entries = logs(chain, first_block, MILESTONES)
    times = {
        height: chain.ledger.block(int(height, 16)).timestamp
        for height in {e["blockNumber"] for e in entries}
    }
    found = {name: {} for name in MILESTONES}
    for entry in entries:
        number = int(entry["topics"][1], 16)
        if number in numbers:
            found[names[entry["topics"][0]]][number] = times[entry["blockNumber"]]
    return found


def logs(chain, first_block, names):
    """Return the contracts' log entries with these events' names since a block."""
    events = artifact("MetaScheduler").events
    wanted = {
        "address": chain.contracts.meta_scheduler.address,
        "fromBlock": hex(first_block),
        "toBlock": "latest",
        "topics": [[events[name].topic for name in names]],
    }
    return chain.node.ask("eth_getLogs", wanted)


def slurm_records(lab, since):
    """Return slurmdbd's records of jobs submitted since then (Unix seconds), times as Unix seconds."""
    fields = ("jobname", "state", "submit", "start", "end", "admincomment")
    text = lab.sh(
        "controller",
        "TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -n -X -D --parsable2 "
        f"-S uts{int(since)} -E now+1day -o {','.join(fields)}",
    )
    records = [dict(zip(fields, line.split("|"), strict=True)) for line in text.splitlines()]
    return [one for one in records if int(one["submit"]) >= int(since)]


def slurm_phases(records, began):
    """Return when Slurm took, started and ended the jobs."""
    return tuple(
        phase(f"slurm: {what}", [int(one[what]) for one in records], began) for what in SLURM_TIMES
    )


def phase(name, times, began):
    """Return a phase from Unix times."""
    return Phase(name=name, first=min(times) - began, last=max(times) - began)


def report(chosen, confirmations, straight, ours):
    """Print the phases of each run, the machine, and the ratio of the best runs."""
    for title, runs in (("straight", straight), ("grid", ours)):
        for run in runs:
            print(
                f"\n{title}: seconds since the first submission\n{'':24} {'first job':>10} {'last job':>10}"
            )
            for one in run.phases:
                print(f"{one.name:24} {max(0.0, one.first):10.1f} {one.last:10.1f}")
            print(
                "CPU seconds: " + ", ".join(f"{unit} {spent:.1f}" for unit, spent in dearest(run))
            )
    best_straight, best_ours = (min(run.seconds for run in runs) for runs in (straight, ours))
    load = os.getloadavg()
    print(f"\nmachine: {os.cpu_count()} cores, {platform.machine()}, load {load[0]:.1f}")
    print(
        f"jobs {chosen.jobs}, rounds {chosen.rounds}, confirmations {confirmations}, blocks every second, 30 M gas"
    )
    print(
        f"straight {best_straight:.1f} s, grid {best_ours:.1f} s, ratio {best_straight / best_ours:.2f} (bar {BAR})"
    )
    return 0 if best_straight / best_ours >= BAR else 1


def dearest(run):
    return sorted(run.cpu.items(), key=lambda item: -item[1])


def tell(line):
    """Say what comes next."""
    print(f"bench: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
