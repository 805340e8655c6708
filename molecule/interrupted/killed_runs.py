# SPDX-License-Identifier: Apache-2.0
"""Start site.yml five times and kill each run, in a different fifth of the undisturbed run.

The moments of the kills are random. The seed is $GRIDSTEAD_SEED or, without it, a new random
number. It is printed.
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
# Time for programs that a killed task has started on a host, such as apt, dscreate or the installer
# of role control_plane, to end by themselves.
REMAINS_S = 120


def run_until(moment: kill_points.Moment, number: int) -> None:
    """Start a run and kill it at a moment, with all its processes on this machine."""
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
        was_reached = wait_for(moment, run)
        if was_reached:
            time.sleep(moment.after_s)
        had_ended = run.poll() is not None
        # Workers and connections have their own sessions and are found by the mark.
        is_gone = processes.kill_all(
            lambda pid: processes.is_marked(pid, f"{MARK}={mark[MARK]}"), seconds=10
        )
    if not was_reached or had_ended or run.returncode != -signal.SIGKILL:
        sys.exit(f"run {number} ended with exit code {run.returncode} before {moment}")
    if not is_gone:
        sys.exit(f"could not kill run {number}")


def wait_for(moment: kill_points.Moment, run: Popen[str]) -> bool:
    """Wait until a run reaches the task of a moment; return False if the run ends before that."""
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
    """Return the processes on a host that were started over ssh, a line for each process."""
    config = CHECKOUT / ".lab" / os.environ["GRIDSTEAD_LAB_NAME"] / "ssh_config"
    ssh = ["ssh", "-F", str(config), host, "python3", "-"]
    program = (SCENARIO / "ssh_processes.py").read_text()
    done = subprocess.run(ssh, input=program, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def wait_for_quiet(host: str, before: list[str]) -> None:
    """Wait until every process that a killed run has started on a host has ended.

    Otherwise the next run would work at the same time as these processes.
    """
    began = time.monotonic()
    printed: list[str] = []
    while True:
        new = [line for line in remains(host) if line not in before]
        if not new:
            return
        if new != printed:
            print(f"  {host} after {time.monotonic() - began:.1f} s: {'; '.join(new)}")
            printed = new
        if time.monotonic() - began > REMAINS_S:
            sys.exit(f"processes of a killed run still run on {host}")
        time.sleep(1)


def main() -> None:
    """Start and kill the runs."""
    seed = os.environ.get("GRIDSTEAD_SEED") or str(random.SystemRandom().randrange(10**6))
    run = kill_points.tasks((NOTES / "ansible.log").read_text())
    print(f"seed {seed}; {len(run)} tasks in {run[-1].start_s + run[-1].length_s:.0f} s")
    # The play that runs this program has connections to the hosts, which remain open.
    before = {}
    for host in HOSTS:
        before[host] = remains(host)
    chosen = kill_points.choose(run, RUNS, random.Random(seed))  # noqa: S311
    for number, moment in enumerate(chosen, start=1):
        print(f"{number}: {moment.banner}, {moment.count}., after {moment.after_s:.2f} s")
        run_until(moment, number)
        for host in HOSTS:
            wait_for_quiet(host, before[host])


if __name__ == "__main__":
    main()
