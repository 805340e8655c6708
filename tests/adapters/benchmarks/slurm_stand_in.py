#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for the commands of Slurm that ReFrame runs: sbatch, srun, sacct, squeue, scancel.

A job starts at once on this host, except on a node whose name starts with ``down``, and is
preempted at once on a node whose name starts with ``paid``. Jobs for a node whose name starts with
``lost`` cannot be submitted, as without slurmctld. The program's name is the command.
SLURM_STAND_IN is the directory of its files.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

STATE = Path(os.environ["SLURM_STAND_IN"])
PROGRAM = Path(__file__)


def sbatch(*arguments):
    script = Path(arguments[-1])
    lines = [line for line in script.read_text().splitlines() if line.startswith("#SBATCH --")]
    options = dict(line.removeprefix("#SBATCH --").partition("=")[::2] for line in lines)
    number = len(list(STATE.glob("*.json"))) + 1
    nodes = options["nodelist"]
    if nodes.startswith("lost"):
        sys.exit("sbatch: error: Unable to contact slurm controller (connect failure)")
    state = {"down": "PENDING", "paid": "PREEMPTED"}.get(nodes[:4], "RUNNING")
    job = {"state": state, "exit": 0, "nodes": nodes, "pid": 0, "options": options}
    save(number, job)
    if state == "RUNNING":
        with Path(options["output"]).open("w") as output, Path(options["error"]).open("w") as error:
            subprocess.Popen(
                [PROGRAM.with_name("run-job"), str(number), script.resolve()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=error,
                start_new_session=True,
            )
    print("Submitted batch job", number)


def run_job(number, script):
    save(number, load(number) | {"pid": os.getpid()})
    exit_code = subprocess.run(["bash", script], check=False).returncode
    state = "FAILED" if exit_code else "COMPLETED"
    save(number, load(number) | {"state": state, "exit": exit_code})


def srun(*arguments):
    command = [argument for argument in arguments if not argument.startswith("--")]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    for line in result.stdout.splitlines():
        print(f"0: {line}")
    sys.exit(result.returncode)


def sacct(*arguments):
    print("JobID|State|ExitCode|End|NodeList")
    for number in arguments[arguments.index("-j") + 1].split(","):
        job = load(number)
        print(f"{number}|{job['state']}|{job['exit']}:0|Unknown|{job['nodes']}")


def scancel(*arguments):
    numbers = [argument for argument in arguments if argument.isdigit()]
    for number in numbers or [path.stem for path in STATE.glob("*.json")]:
        job = load(number)
        if job["pid"] and job["state"] == "RUNNING":
            # The program timeout has a process group of its own in the session of the job.
            subprocess.run(["pkill", "-KILL", "--session", str(job["pid"])], check=True)
        if job["state"] in ("PENDING", "RUNNING"):
            save(number, job | {"state": "CANCELLED"})


def load(number):
    return json.loads((STATE / f"{number}.json").read_text())


def save(number, job):
    new_file = STATE / f"{number}.new{os.getpid()}"
    new_file.write_text(json.dumps(job))
    new_file.replace(STATE / f"{number}.json")


COMMANDS = {"sbatch": sbatch, "srun": srun, "sacct": sacct, "scancel": scancel, "run-job": run_job}

if __name__ == "__main__":
    COMMANDS.get(PROGRAM.name, print)(*sys.argv[1:])
