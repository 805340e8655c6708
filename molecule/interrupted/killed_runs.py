# SPDX-License-Identifier: Apache-2.0
"""Begins site.yml five times and kills it each time, at a moment in another fifth of the
undisturbed run.

$GRIDSTEAD_SEED chooses the moments; without it they are new ones, and the seed is printed.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen

from gridstead_lab import kill_points, processes

RUNS = 5
SCENARIO = Path(__file__).resolve().parent
CHECKOUT = SCENARIO.parents[1]
NOTES = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
HOSTS = tuple(json.loads((SCENARIO / "topology.json").read_text())["hosts"])
SITE = ["ansible-playbook", f"--inventory={SCENARIO}/inventory/", str(CHECKOUT / "site.yml")]
MARK = "GRIDSTEAD_KILLED_RUN"
REMAINS_S = 120  # what a task began on a host may end by itself: apt, dscreate, the installer of role control_plane


def run_until(moment: kill_points.Moment, number: int) -> None:
    """A run has been killed at a moment, with all that it had started on this machine."""
    mark = {
        MARK: f"{os.getpid()}-{number}",
        "ANSIBLE_LOG_PATH": str(NOTES / f"killed-{number}.log"),
    }
    plain = {"ANSIBLE_FORCE_COLOR": "false", "ANSIBLE_NOCOLOR": "true"}
    with Popen(
        SITE,
        env=os.environ | mark | plain,
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        met = wait_for(moment, run)
        if met:
            time.sleep(moment.after_s)
        ended = run.poll() is not None
        # Workers and connections have sessions of their own.
        gone = processes.kill_all(
            lambda pid: processes.is_marked(pid, f"{MARK}={mark[MARK]}"), seconds=10
        )
    if not met or ended or run.returncode != -signal.SIGKILL:
        sys.exit(f"run {number} was not there to be killed at {moment}: {run.returncode}")
    if not gone:
        sys.exit(f"run {number} could not be killed")


def wait_for(moment: kill_points.Moment, run: Popen[str]) -> bool:
    """Return whether a run gets to the task of a moment."""
    count = 0
    with (NOTES / "killed.out").open("a") as out:
        for line in run.stdout or ():
            out.write(line)
            if line.startswith(moment.banner):
                count += 1
            if count == moment.count:
                return True
    return False


def remains(host: str) -> list[str]:
    """Return what runs on a host that came over ssh, a line for each process."""
    ssh = [
        "ssh",
        "-F",
        str(CHECKOUT / ".lab" / os.environ["GRIDSTEAD_LAB_NAME"] / "ssh_config"),
        host,
        "python3",
        "-",
    ]
    look = (SCENARIO / "ssh_processes.py").read_text()
    return subprocess.run(
        ssh, input=look, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def wait_for_quiet(host: str, before: list[str]) -> None:
    """Nothing goes on on a host but what was there before; the next run would meet a killed one at
    its work.
    """
    begun = time.monotonic()
    told: list[str] = []
    while seen := [line for line in remains(host) if line not in before]:
        if seen != told:
            print(f"  {host} after {time.monotonic() - begun:.1f} s: {'; '.join(seen)}")
            told = seen
        if time.monotonic() - begun > REMAINS_S:
            sys.exit(f"{host} still runs what a killed run began")
        time.sleep(1)


def main() -> None:
    """Kill them all."""
    seed = os.environ.get("GRIDSTEAD_SEED") or str(random.SystemRandom().randrange(10**6))
    run = kill_points.tasks((NOTES / "ansible.log").read_text())
    print(f"seed {seed}; {len(run)} tasks in {run[-1].start_s + run[-1].length_s:.0f} s")
    # The play that this is a task of keeps its connections.
    before = {host: remains(host) for host in HOSTS}
    chosen = kill_points.choose(run, RUNS, random.Random(seed))  # noqa: S311  # moments are no secrets
    for number, moment in enumerate(chosen, start=1):
        print(f"{number}: {moment.banner}, {moment.count}., after {moment.after_s:.2f} s")
        run_until(moment, number)
        for host in HOSTS:
            wait_for_quiet(host, before[host])


if __name__ == "__main__":
    main()
