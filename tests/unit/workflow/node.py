# SPDX-License-Identifier: Apache-2.0
"""A simulated compute node, with a home, a private /tmp, caches, ``srun`` and a log writer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

from gridstead.workflow.parse import from_graphql
from gridstead.workflow.render import ScriptPaths, render, secrets_of

JOB_NAME = "0x" + "07" * 32

SRUN = r"""#!/bin/bash
# Records its arguments, runs the prolog, and runs the command once per task. Ignores signals, which
# only the tasks handle.
shopt -s nullglob
calls=("$HOME"/srun.*)
printf '%s\0' "$@" >"$HOME/srun.${#calls[@]}"
tasks=1
while [[ $1 == --* ]]; do
  case $1 in
  --ntasks=*) tasks=${1#*=} ;;
  --prolog=*) "${1#*=}" || exit 1 ;;
  esac
  shift
done
trap : HUP INT QUIT USR1 USR2 TERM
exec 3>&2 2>/dev/null # hides stderr, to which bash prints messages about signals
for ((SLURM_PROCID = 0; SLURM_PROCID < tasks; SLURM_PROCID++)); do
  export SLURM_PROCID SLURM_NTASKS=$tasks SLURM_LAUNCH_NODE_IPADDR=${NODE_IPADDR:-192.0.2.1}
  "$@" 2>&3 3>&- || code=$?
done
exit "${code:-0}"
"""

# A Python program. The test that installs the program adds the first line and defines ``home``.
RECORDING_SRUN = r"""
# Records its arguments and its environment as bytes, and does not run the command.
import os, sys
number = sum(name.startswith("srun.") for name in os.listdir(home))
variables = b"\0".join(b"=".join(pair) for pair in os.environb.items())
open(f"{home}/env.{number}", "wb").write(variables)
words = b"".join(os.fsencode(word) + b"\0" for word in sys.argv[1:])
open(f"{home}/srun.{number}", "wb").write(words)
"""

WRITER = r"""#!/bin/bash
# Records the file with its access data ($1), its input (stdin, and the stderr of the job and the
# messages of the grid on the two file descriptors in $2), and the time at which it ends. Copies
# everything except the messages of the grid.
cp "$1" "$HOME/access"
stat -c %a "$1" "$(dirname "$1")" >"$HOME/modes"
tee "$HOME/log.stderr" <&"${2%,*}" &
cat >"$HOME/log.grid" <&"${2#*,}" &
tee "$HOME/log"
wait
date +%s.%N >"$HOME/writer-ended"
"""

# The variables of a job that the log writer needs.
SECRETS = {
    "GRIDSTEAD_LOGGER_URL": "logger:8445",
    "GRIDSTEAD_LOGGER_CA": "/etc/ca.crt",
    "GRIDSTEAD_LOG_OWNER": "0x" + "ab" * 20,
    "GRIDSTEAD_LOG_NAME": JOB_NAME,
    "GRIDSTEAD_LOG_TOKEN": "very-secret",
}

# The fields of an input or an output in S3.
STORE = {
    "region": "eu-1", "bucketUrl": "s3://bucket", "path": "/some/data/", "accessKeyId": "AKIA",
    "secretAccessKey": "very/secret+key=", "endpointUrl": "https://store.example:9000",
}  # fmt: skip


def workflow(*steps_or_commands, tasks=4, **fields):
    """Return a workflow of these steps. A string is a step that runs the string as a command."""
    return from_graphql(
        {
            "resources": {"tasks": tasks, "cpusPerTask": 1, "memPerCpu": 100},
            "steps": steps(*steps_or_commands),
            **fields,
        }
    )


def steps(*steps_or_commands):
    """Return a list of steps. A string is a step that runs the string as a command."""
    return [
        {"run": {"command": step}} if isinstance(step, str) else step for step in steps_or_commands
    ]


def wait_for(condition):
    """Wait until ``condition()`` is true. Fail after ten seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


RCLONE = r"""#!/bin/bash
# Simulates an S3 store whose buckets are folders. Records the arguments and the remote's variables.
# The included names are not patterns but the starts of names.
printf '%s\n' "$*" >>"$HOME/rclone"
compgen -v RCLONE_CONFIG_STORE_ | while read -r name; do
  printf '%s=%s\n' "$name" "${!name}"
done >"$HOME/rclone-variables"
action=$3 included=''
shift 3
while [[ $1 = --* ]]; do
  if [[ $1 = --include ]]; then included=${2%%\**} && shift; fi
  shift
done
from=${1/#store:/$HOME/store/} to=${2/#store:/$HOME/store/}
if [[ $action = sync ]]; then rm -rf "$to"; fi
mkdir -p "$to" || exit
if [[ ! $included ]]; then
  cp -r "$from/." "$to"
else
  cp -r "$from$included"* "$to" || exit 9
fi
"""


# Held while a program file is written and while a job is forked. A forked process inherits the open
# files of this process, and keeps them until its exec. Linux refuses to run a program that any
# process has open for writing (ETXTBSY).
FORK_LOCK = threading.Lock()


class Node:
    """Runs the scripts of jobs with simulated programs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.bin = root / "bin"
        self.jobs: list[subprocess.Popen[bytes]] = []
        for folder in (self.home, self.bin, root / "tmp", root / "cache"):
            folder.mkdir()
        self.add_program("srun", SRUN)
        self.add_program("writer", WRITER)
        (self.home / ".bash_profile").write_text(f"PATH={self.bin}:$PATH\n")
        self.script_paths = ScriptPaths(
            writer=str(self.bin / "writer"), bore=str(self.bin / "bore"), cache=str(root / "cache")
        )

    def add_program(self, name: str, text: str) -> None:
        """Install a program, or replace the program of this name."""
        with FORK_LOCK:
            (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def start(self, workflow, *, text=None, **environment):
        """Start a workflow's script with default signal handlers, as Slurm does.

        ``text`` replaces the rendered script.
        """
        script = self.root / "script"
        with FORK_LOCK:
            script.write_text(text or render(workflow, paths=self.script_paths))
            script.chmod(0o700)
            job = self._popen(script, {**SECRETS, **secrets_of(workflow), **environment})
        self.jobs.append(job)
        return job

    def _popen(self, script, environment):
        base = {
            "HOME": str(self.home), "PATH": os.environ["PATH"], "TMPDIR": str(self.root / "tmp"),
            "SLURM_JOB_ID": "42", "SLURM_JOB_NAME": JOB_NAME, "SLURM_EXPORT_ENV": "NONE",
        }  # fmt: skip
        return subprocess.Popen(
            ["env", "--default-signal", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=self.home,
            start_new_session=True,
            env={**base, **environment},
        )

    def kill_jobs(self):
        """Kill all processes of the running jobs."""
        for job in self.jobs:
            if job.returncode is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.communicate()

    def run(self, workflow, *, text=None, timeout_s=60, **environment):
        """Run a job and return its exit code and output.

        Raises:
            subprocess.TimeoutExpired: The job did not end in time and was killed.
        """
        job = self.start(workflow, text=text, **environment)
        try:
            output, _ = job.communicate(timeout=timeout_s)
        finally:
            self.kill_jobs()
        return job.returncode, output.decode("utf-8", "surrogateescape")

    @property
    def srun_calls(self) -> list[list[str]]:
        """Return the arguments of each call of srun."""
        files = sorted(self.home.glob("srun.*"))
        return [file.read_bytes().decode().split("\0")[:-1] for file in files]

    @property
    def markers(self) -> list[str]:
        """Return the markers of the last job with logging, without times and durations."""
        text = (self.home / "log.grid").read_text("ascii")
        times = r" (time=[0-9-]{10}T[0-9:]{8}\.[0-9]{3}Z|seconds=[0-9]+\.[0-9]{3})"
        return [re.sub(times, "", line) for line in text.splitlines()]

    @property
    def leftover_files(self) -> list[Path]:
        """Return the files that a job should have removed."""
        return [*(self.root / "tmp").iterdir(), *(self.root / "cache").glob("shared/*/*")]
