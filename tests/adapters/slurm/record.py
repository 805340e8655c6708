# SPDX-License-Identifier: Apache-2.0
"""Records the output of Slurm's commands in a lab, for the tests of the parsers.

Each output is written to a file of its own.

Usage: record.py SSH_CONFIG [CONTROLLER]

The lab must have a running cluster, the wallet user USER and an empty queue. The recording takes
about two minutes, because one job runs until its time limit.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

from gridstead.adapters.slurm import commands, failures
from gridstead.adapters.slurm.nodes import show_nodes
from gridstead.adapters.slurm.runner import Command

ACCOUNT = "grid"
USER = f"0x{1:040d}"
UID, GID = 200001, 100000
CHAIN_AND_CONTRACT = f"179188/0x{0xC0FFEE:040x}"
HOSTILE_NAME = "a|b\nc  200001 COMPLETED\t'\"$(id)é"


class Lab:
    """Runs commands on the controller of a lab, over SSH as root."""

    def __init__(self, ssh_config: str, host: str) -> None:
        self._ssh = ["ssh", "-F", ssh_config, host]

    def run(self, *argv: str, stdin: str = "", environment: dict[str, str] | None = None) -> str:
        """Run a program with its arguments and return its output."""
        variables = [f"{key}={value}" for key, value in (environment or {}).items()]
        command_line = shlex.join(["env", *variables, *argv])
        result = subprocess.run(
            [*self._ssh, command_line], input=stdin, capture_output=True, text=True, check=True
        )
        return result.stdout

    def run_command(self, command: Command) -> str:
        """Run a command, as built by an adapter, and return its output."""
        return self.run(*command.argv, environment=dict(command.environment))

    def submit(self, number: int, body: str, *options: str, name: str | None = None) -> str:
        """Submit a job with ``number`` in its name and its job key. Return its Slurm job id."""
        slurm_job_name = f"0x{number:064x}"
        slurm_job_id = self.run(
            "sbatch", "--parsable", f"--uid={UID}", f"--gid={GID}", f"--account={ACCOUNT}",
            "--chdir=/tmp",
            "--output=/dev/null", "--export=NONE", "--no-requeue",
            f"--job-name={name or slurm_job_name}",
            f"--comment={CHAIN_AND_CONTRACT}/{slurm_job_name}/recorded-{number}", *options,
            stdin=f"#!/bin/bash\n{body}\n",
        ).strip()  # fmt: skip
        self.run(
            "scontrol",
            "update",
            f"JobId={slurm_job_id}",
            f"AdminComment={CHAIN_AND_CONTRACT}/{slurm_job_name}/recorded-{number}",
        )
        return slurm_job_id


def submit_jobs(lab: Lab) -> list[str]:
    """Submit one job for each reproducible state, and return the Slurm job ids in order."""
    job_ids = [
        lab.submit(1, "sleep 2"),
        lab.submit(2, "sleep 1; exit 3"),
        lab.submit(3, "sleep 1; exit 137"),
        lab.submit(4, "kill -9 $$"),
        lab.submit(5, "sleep 600", "--time=1"),
        lab.submit(6, "sleep 600", "--time=2-03:04:00"),
        lab.submit(7, "sleep 600", "--time=1:00"),
        lab.submit(8, "sleep 600", "--hold"),
        lab.submit(9, "sleep 600", "--begin=now+1hour"),
        lab.submit(10, "sleep 600", name=HOSTILE_NAME),
        lab.submit(11, "sleep 6"),
        lab.submit(12, "python3 -c 'x = bytearray(200 << 20)'; sleep 1", "--mem=40"),
    ]
    time.sleep(2)
    # The list starts with job 1, so its entry 10 is job 11.
    lab.run("scontrol", "suspend", job_ids[10])
    lab.run("scancel", job_ids[6])  # cancelled while it runs
    lab.run("scancel", job_ids[7])  # cancelled while it is held
    time.sleep(4)
    return job_ids


def main() -> None:
    """Record the output of all commands, in the folder of the lab's version of Slurm."""
    ssh_config = sys.argv[1]
    controller = sys.argv[2] if len(sys.argv) > 2 else "controller"
    lab = Lab(ssh_config, controller)
    version = lab.run("squeue", "--version").split()[1]
    folder = Path(__file__).parent / "recorded" / version
    folder.mkdir(parents=True, exist_ok=True)
    since = int(time.time()) - 5

    def record(situation: str, content: str) -> None:
        (folder / f"{situation}.txt").write_text(content, encoding="utf-8")

    job_ids = submit_jobs(lab)
    record("squeue-while-running", lab.run_command(commands.squeue()))
    record("sdiag", lab.run_command(commands.sdiag()))
    lab.run("scontrol", "resume", job_ids[10])
    time.sleep(100)  # until job 5 has reached its time limit
    names = [f"0x{number:064x}" for number in range(1, 13)]
    record("squeue-after-the-end", lab.run_command(commands.squeue()))
    record("squeue-one", lab.run_command(commands.squeue_job(int(job_ids[0]))))
    record("sacct", lab.run_command(commands.sacct(names, since=since)))
    failed_job_ids = [int(job_ids[2]), int(job_ids[1])]
    record("sacct-json", lab.run_command(failures.sacct_json(failed_job_ids, since=since)))
    record("nodes", lab.run_command(show_nodes()))
    record("associations", lab.run_command(commands.associations(USER, account=ACCOUNT)))
    record("helpstate", lab.run("squeue", "--helpstate"))
    # A real token would be a secret, so this one is invented.
    record("token", "SLURM_JWT=header.claims.signature\n")
    lab.run("scancel", *job_ids)


if __name__ == "__main__":
    main()
