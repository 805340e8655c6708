# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a compute node: a home, a private /tmp, caches, srun and a log writer."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from gridstead.workflow.parse import from_graphql
from gridstead.workflow.render import ScriptPaths, render, secrets_of

NAME = "0x" + "07" * 32

SRUN = r"""#!/bin/bash
# Records its arguments, removes its options and runs the rest after the prolog, once per task. The
# task handles signals.
printf '%s\0' "$@" >"$HOME/srun.$(find "$HOME" -name 'srun.*' | wc -l)"
tasks=1
while [[ $1 == --* ]]; do
  case $1 in
  --ntasks=*) tasks=${1#*=} ;;
  --prolog=*) "${1#*=}" || exit 1 ;;
  esac
  shift
done
trap : HUP INT QUIT USR1 USR2 TERM
exec 3>&2 2>/dev/null # bash prints messages about signals here
for ((SLURM_PROCID = 0; SLURM_PROCID < tasks; SLURM_PROCID++)); do
  export SLURM_PROCID SLURM_NTASKS=$tasks SLURM_LAUNCH_NODE_IPADDR=${NODE_IPADDR:-192.0.2.1}
  "$@" 2>&3 3>&- || code=$?
done
exit "${code:-0}"
"""

RECORDER = r"""
# Records its arguments and its environment as bytes.
import os, sys
number = sum(name.startswith("srun.") for name in os.listdir(home))
variables = b"\0".join(b"=".join(pair) for pair in os.environb.items())
open(f"{home}/env.{number}", "wb").write(variables)
words = b"".join(os.fsencode(word) + b"\0" for word in sys.argv[1:])
open(f"{home}/srun.{number}", "wb").write(words)
"""

WRITER = r"""#!/bin/bash
# Records its access file and its input, and the time of its end.
cp "$1" "$HOME/access"
stat -c %a "$1" "$(dirname "$1")" >"$HOME/modes"
tee "$HOME/log.stderr" <&"$2" &
tee "$HOME/log"
wait
date +%s.%N >"$HOME/writer-ended"
"""

SECRETS = {
    "GRIDSTEAD_LOGGER_URL": "logger:8445",
    "GRIDSTEAD_LOGGER_CA": "/etc/ca.crt",
    "GRIDSTEAD_LOG_OWNER": "0x" + "ab" * 20,
    "GRIDSTEAD_LOG_NAME": NAME,
    "GRIDSTEAD_LOG_TOKEN": "very-secret",
}

STORE = {
    "region": "eu-1", "bucketUrl": "s3://bucket", "path": "/some/data/", "accessKeyId": "AKIA",
    "secretAccessKey": "very/secret+key=", "endpointUrl": "https://store.example:9000",
}  # fmt: skip


def workflow(*steps, tasks=4, **fields):
    """Return a workflow of these steps. A step is a mapping, or a text that is its command."""
    return from_graphql(
        {
            "resources": {"tasks": tasks, "cpusPerTask": 1, "memPerCpu": 100},
            "steps": [command(step) for step in steps],
            **fields,
        }
    )


def command(step):
    """Return a step that runs a text, or the step itself."""
    return {"run": {"command": step}} if isinstance(step, str) else step


def steps(*some_steps):
    """Return a list of steps."""
    return [command(step) for step in some_steps]


def wait_for(condition):
    """Wait until the condition holds; fail after ten seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


RCLONE = r"""#!/bin/bash
# A store whose buckets are folders. Records its arguments and its configuration.
printf '%s\n' "$*" >>"$HOME/rclone"
stat -c %a "$2" >>"$HOME/rclone-modes"
cp "$2" "$HOME/rclone.conf"
from=${4/#store:/$HOME/store/} to=${5/#store:/$HOME/store/}
if [[ $3 = sync ]]; then rm -rf "$to"; fi
mkdir -p "$to" && cp -r "$from/." "$to"
"""


# Held while a file is written. A child that another thread forks has the file open until it
# executes its program, and meanwhile the file cannot be executed.
STARTING = threading.Lock()


class Node:
    """A machine on which scripts run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.bin = root / "bin"
        self.running: list[subprocess.Popen[bytes]] = []
        for folder in (self.home, self.bin, root / "tmp", root / "cache"):
            folder.mkdir()
        self.add("srun", SRUN)
        self.add("writer", WRITER)
        (self.home / ".bash_profile").write_text(f"PATH={self.bin}:$PATH\n")
        self.site = ScriptPaths(
            writer=str(self.bin / "writer"), bore=str(self.bin / "bore"), cache=str(root / "cache")
        )

    def add(self, name: str, text: str) -> None:
        with STARTING:
            (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def start(self, workflow, *, text=None, **environment):
        """Start the script of a workflow as Slurm does, whatever signals this process ignores."""
        script = self.root / "script"
        with STARTING:
            script.write_text(text or render(workflow, site=self.site))
            script.chmod(0o700)
            job = self._popen(script, {**SECRETS, **secrets_of(workflow), **environment})
        self.running.append(job)
        return job

    def _popen(self, script, environment):
        base = {
            "HOME": str(self.home), "PATH": os.environ["PATH"], "TMPDIR": str(self.root / "tmp"),
            "SLURM_JOB_ID": "42", "SLURM_JOB_NAME": NAME, "SLURM_EXPORT_ENV": "NONE",
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

    def end(self):
        """Kill running jobs with all their processes."""
        for job in self.running:
            if job.returncode is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.communicate()

    def run(self, workflow, *, text=None, patience_s=60, **environment):
        """Run a job to its end and return its exit code and output. A job that hangs is killed."""
        job = self.start(workflow, text=text, **environment)
        try:
            output, _ = job.communicate(timeout=patience_s)
        finally:
            self.end()
        return job.returncode, output.decode("utf-8", "surrogateescape")

    @property
    def calls(self) -> list[list[str]]:
        """Return the arguments of each call of srun."""
        files = sorted(self.home.glob("srun.*"))
        return [file.read_bytes().decode().split("\0")[:-1] for file in files]

    @property
    def left(self) -> list[Path]:
        """Return the files that a job should have removed."""
        return [*(self.root / "tmp").iterdir(), *(self.root / "cache").glob("shared/*/*")]
