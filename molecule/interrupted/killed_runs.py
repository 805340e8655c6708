# SPDX-License-Identifier: Apache-2.0
"""Start site.yml five times and kill each run at a random kill point.

Each kill point is in a different fifth of the tasks of an uninterrupted run. The seed of the random
kill points is $GRIDSTEAD_SEED or a new random number. The program prints the seed.
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
EPHEMERAL_FOLDER = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
HOSTS = tuple(json.loads((SCENARIO / "topology.json").read_text())["hosts"])
RUN_SITE_YML = [
    "ansible-playbook",
    f"--inventory={SCENARIO}/inventory/",
    str(CHECKOUT / "site.yml"),
]
MARK_VARIABLE = "GRIDSTEAD_KILLED_RUN"
# A killed task may have started programs on a host, such as apt, dscreate or the installer of role
# control_plane. These programs must end within this time.
PROCESS_TIMEOUT_S = 120


def run_until(kill_point: kill_points.KillPoint, number: int) -> None:
    """Start a run. At a kill point, kill all processes of the run on this machine."""
    mark = {
        MARK_VARIABLE: f"{os.getpid()}-{number}",
        "ANSIBLE_LOG_PATH": str(EPHEMERAL_FOLDER / f"killed-{number}.log"),
    }
    no_colours = {"ANSIBLE_FORCE_COLOR": "false", "ANSIBLE_NOCOLOR": "true"}
    with Popen(
        RUN_SITE_YML,
        env=os.environ | mark | no_colours,
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        was_reached = wait_for(kill_point, run)
        if was_reached:
            time.sleep(kill_point.after_s)
        has_ended = run.poll() is not None
        # Workers and connections have separate sessions, so search for all processes with the mark.
        all_killed = processes.kill_all(
            lambda pid: processes.is_marked(pid, f"{MARK_VARIABLE}={mark[MARK_VARIABLE]}"),
            seconds=10,
        )
    if not was_reached or has_ended or run.returncode != -signal.SIGKILL:
        sys.exit(f"run {number} ended with exit code {run.returncode} before {kill_point}")
    if not all_killed:
        sys.exit(f"could not kill run {number}")


def wait_for(kill_point: kill_points.KillPoint, run: Popen[str]) -> bool:
    """Wait until a run reaches the task of a kill point. Returns False if the run ends first."""
    count = 0
    with (EPHEMERAL_FOLDER / "killed.out").open("a") as out:
        for line in run.stdout or ():
            out.write(line)
            if line.startswith(kill_point.banner):
                count += 1
            if count == kill_point.count:
                return True
    return False


def ssh_processes(host: str) -> list[str]:
    """Return the processes on a host that were started over ssh, one line per process."""
    config = CHECKOUT / ".lab" / os.environ["GRIDSTEAD_LAB_NAME"] / "ssh_config"
    ssh = ["ssh", "-F", str(config), host, "python3", "-"]
    program = (SCENARIO / "ssh_processes.py").read_text()
    result = subprocess.run(ssh, input=program, capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


def wait_for_processes(host: str, before: list[str]) -> None:
    """Wait until all processes that a killed run started on a host have ended.

    The next run must not start while these processes still run. ``before`` lists the processes that
    ran on the host before the first killed run.
    """
    start_s = time.monotonic()
    printed_lines: list[str] = []
    while True:
        new_processes = [line for line in ssh_processes(host) if line not in before]
        if not new_processes:
            return
        if new_processes != printed_lines:
            print(f"  {host} after {time.monotonic() - start_s:.1f} s: {'; '.join(new_processes)}")
            printed_lines = new_processes
        if time.monotonic() - start_s > PROCESS_TIMEOUT_S:
            sys.exit(f"processes of a killed run still run on {host}")
        time.sleep(1)


def main() -> None:
    """Start and kill the runs."""
    seed = os.environ.get("GRIDSTEAD_SEED") or str(random.SystemRandom().randrange(10**6))
    tasks = kill_points.tasks((EPHEMERAL_FOLDER / "ansible.log").read_text())
    duration_s = tasks[-1].start_s + tasks[-1].length_s
    print(f"seed {seed}; {len(tasks)} tasks in {duration_s:.0f} s")
    # The play that runs this program keeps its connections to the hosts open. Do not wait for the
    # processes of these connections.
    before = {}
    for host in HOSTS:
        before[host] = ssh_processes(host)
    points = kill_points.choose(tasks, RUNS, random.Random(seed))  # noqa: S311
    for number, kill_point in enumerate(points, start=1):
        print(
            f"{number}: {kill_point.banner}, {kill_point.count}., after {kill_point.after_s:.2f} s"
        )
        run_until(kill_point, number)
        for host in HOSTS:
            wait_for_processes(host, before[host])


if __name__ == "__main__":
    main()
