# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of the benchmarks in Slurm with ReFrame.

ReFrame submits one Slurm job for each step, waits for the jobs, cancels jobs that take too long,
and writes a report. A Slurm job has whole nodes, so a node runs one step at a time. The directory
of the steps must be on a file system that the nodes share, because Slurm writes their output there.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridstead.adapters.benchmarks.reframe_output import watch_output
from gridstead.adapters.slurm import commands
from gridstead.adapters.slurm.runner import Runner, read_output
from gridstead.domain.benchmarks import schedule
from gridstead.domain.benchmarks.site import Cause, Failure, Outcome, Outcomes, Step
from gridstead.errors import UnexpectedOutput
from gridstead.ports.benchmarks import StepWatch

# These files are not modules of this package, because only ReFrame can import them.
_REFRAME_FILES = Path(__file__).with_name("reframe")
CHECKS, SETTINGS = _REFRAME_FILES / "checks.py", _REFRAME_FILES / "settings.py"
# Without its parent, ReFrame would submit the other steps and disturb the next run.
_DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
_LABELLED_LINE = re.compile(r" *(\d+): ?(.*)")
_MAX_REASON_CHARS = 300
_ERROR_LINES = 3
# Texts of checks.py, and what they mean for the rest of the run.
_CAUSES = {
    "it ended as PREEMPTED": Failure(reason="paid jobs needed the nodes", cause=Cause.PREEMPTED),
    "it did not start in time": Failure(reason="it did not start in time", cause=Cause.NOT_STARTED),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """How the steps are submitted.

    Attributes:
        partition: The partition of the Slurm jobs.
        jobs_at_once: How many Slurm jobs are submitted at the same time.
        start_limit_s: How long a job may wait for its nodes, in addition to the limits of the steps
            that are before it on these nodes. Then it is cancelled.
        reservation: The reservation of the Slurm jobs, or empty.
        scheduler: The scheduler of ReFrame. Tests use ``local``.
    """

    partition: str
    jobs_at_once: int
    start_limit_s: int = 600
    reservation: str = ""
    scheduler: str = "preemptible-slurm"

    @property
    def is_local(self) -> bool:
        """Whether the steps run on this host without Slurm."""
        return self.scheduler == "local"


class ReframeSteps:
    """Implements port ``Steps``.

    Args:
        runner: Runs the commands of Slurm.
        program: The program ``reframe``.
        directory: A directory on a file system that the nodes share. Its subdirectory
            ``gridstead-steps`` is replaced.
        jobs: How the steps are submitted.
        watch: Receives the progress of the steps.

    Attributes:
        directory: The subdirectory.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        program: Path,
        directory: Path,
        jobs: JobOptions,
        watch: StepWatch,
    ) -> None:
        self._runner = runner
        self._program = program
        self.directory = directory / "gridstead-steps"
        self._jobs = jobs
        self._watch = watch

    def run(self, steps: Sequence[Step]) -> Outcomes:
        """Run steps to their ends, and return what each one printed, or why it failed.

        Raises:
            SchedulerUnavailable: If the jobs of an earlier call could not be cancelled.
            UnexpectedOutput: If ReFrame wrote no report, or a report in an unknown format.
        """
        self._cancel_jobs()
        self._write_files(steps)
        self._watch.planned(len(steps))
        try:
            return _outcomes(steps, self._run_reframe())
        except BaseException:
            self._cancel_jobs()
            raise

    def _run_reframe(self) -> Mapping[str, Any]:
        """Run ReFrame and return its report."""
        report_file = self.directory / "report.json"
        command = [
            *_DIES_WITH_PARENT,
            str(self._program),
            "--run",
            f"--config-file={self.directory / SETTINGS.name}",
            f"--checkpath={self.directory / CHECKS.name}",
            f"--prefix={self.directory / 'reframe'}",
            f"--report-file={report_file}",
            "--keep-stage-files",
            "--nocolor",
        ]
        process = subprocess.Popen(
            command,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with process:
            try:
                output = watch_output(process.stdout or (), self._watch)
            except BaseException:
                # ReFrame must not submit more jobs, so its own commands are killed too.
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if not report_file.exists():
            raise UnexpectedOutput("reframe", output.decode(errors="replace"))
        report: Mapping[str, Any] = json.loads(report_file.read_text())
        return report

    def _cancel_jobs(self) -> None:
        """Cancel all jobs of this account in the partition."""
        if self._jobs.is_local:
            return
        own_jobs = (f"--user={getpass.getuser()}", f"--partition={self._jobs.partition}")
        read_output(self._runner, commands.slurm_command("scancel", *own_jobs))

    def _write_files(self, steps: Sequence[Step]) -> None:
        if self.directory.exists():
            shutil.rmtree(self.directory)
        self.directory.mkdir()
        for file in (CHECKS, SETTINGS):
            shutil.copy(file, self.directory)
        latest_starts = schedule.latest_starts(steps, jobs_at_once=self._jobs.jobs_at_once)
        plan = []
        for step in steps:
            script_file = self.directory / f"{step.name}.sh"
            script_file.write_text(step.script)
            plan.append(
                {
                    "name": step.name,
                    "nodes": step.nodes,
                    "tasks_per_node": step.tasks_per_node,
                    "gpus_per_node": step.gpus_per_node,
                    "limit_s": step.limit_s,
                    "start_limit_s": latest_starts[step.name] + self._jobs.start_limit_s,
                    "script_file": str(script_file),
                }
            )
        (self.directory / "steps.json").write_text(json.dumps(plan))
        (self.directory / "settings.json").write_text(json.dumps(self._settings()))

    def _settings(self) -> dict[str, Any]:
        """Return the configuration of ReFrame."""
        access = [f"--partition={self._jobs.partition}", "--exclusive"]
        if self._jobs.reservation:
            access.append(f"--reservation={self._jobs.reservation}")
        partition = {
            "name": "nodes",
            "scheduler": self._jobs.scheduler,
            "launcher": "local" if self._jobs.is_local else "srun",
            "access": [] if self._jobs.is_local else access,
            "environs": ["none"],
            "max_jobs": self._jobs.jobs_at_once,
            # A node that is not available may come back before the job has waited too long.
            "sched_options": {"ignore_reqnodenotavail": True},
        }
        return {
            "systems": [{"name": "site", "hostnames": [".*"], "partitions": [partition]}],
            "environments": [{"name": "none"}],
        }


def _outcomes(steps: Iterable[Step], report: Mapping[str, Any]) -> Outcomes:
    """Return the outcome of each step."""
    try:
        results = {result["step"]: result for result in report["runs"][0]["testcases"]}
    except (KeyError, IndexError, TypeError) as error:
        raise UnexpectedOutput("reframe", json.dumps(report)[:500]) from error
    return {step.name: _outcome(results.get(step.name)) for step in steps}


def _outcome(result: Mapping[str, Any] | None) -> Outcome:
    if result is None:
        return Failure(reason="it was not run")
    directory = Path(result["stagedir"])
    if result["result"] == "pass":
        return _tasks_of(directory / result["job_stdout"])
    reason = " ".join(str(result.get("fail_reason", "it failed")).split())[:_MAX_REASON_CHARS]
    for text, failure in _CAUSES.items():
        if text in reason:
            return failure
    error_file = directory / str(result["job_stderr"])
    if error_file.exists():
        lines = error_file.read_text(errors="replace").strip().splitlines()[-_ERROR_LINES:]
        reason += "".join(f"; {line[:_MAX_REASON_CHARS]}" for line in lines)
    return Failure(reason=reason)


def _tasks_of(output_file: Path) -> Outcome:
    # read_text() would replace "\r", so that a line of progress would become a line of its own.
    text = output_file.read_bytes().decode(errors="replace")
    try:
        return split_tasks(text)
    except UnexpectedOutput as error:
        return Failure(reason=f"its output cannot be read: {error}"[:_MAX_REASON_CHARS])


def split_tasks(text: str) -> tuple[str, ...]:
    """Return the output of each task, in the order of their numbers.

    Args:
        text: The output of ``srun --label``: each line begins with the number of its task.

    Raises:
        UnexpectedOutput: If a line has no number.
    """
    lines: defaultdict[int, list[str]] = defaultdict(list)
    for line in text.removesuffix("\n").split("\n"):
        match = _LABELLED_LINE.fullmatch(line)
        if match is None:
            raise UnexpectedOutput("srun --label", line)
        lines[int(match[1])].append(match[2] + "\n")
    return tuple("".join(lines[task]) for task in sorted(lines))
