# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of the benchmarks in Slurm with ReFrame.

ReFrame submits one Slurm job for each step, waits for the jobs, cancels jobs that take too long,
and writes a report. A Slurm job has whole nodes, so a node runs one step at a time. The directory
of the steps must be on a file system that the nodes share, because Slurm writes their output there.
"""

from __future__ import annotations

import getpass
import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gridstead.adapters.benchmarks.reframe_output import watch_output
from gridstead.adapters.slurm import commands
from gridstead.adapters.slurm.runner import Runner, read_output
from gridstead.domain.benchmarks.site import Failure, Outcome, Outcomes, Step
from gridstead.errors import UnexpectedOutput
from gridstead.ports.benchmarks import StepWatch

# This file is not a module of this package, because only ReFrame can import it.
CHECKS = Path(__file__).with_name("reframe") / "checks.py"
_LABELLED_LINE = re.compile(r" *(\d+): ?(.*)")
_MAX_REASON_CHARS = 300
_ERROR_LINES = 3


class ReframeSteps:
    """Implements port ``Steps``.

    Args:
        runner: Runs the commands of Slurm.
        program: The program ``reframe``.
        directory: A directory on a file system that the nodes share. Its subdirectory
            ``gridstead-steps`` is replaced.
        partition: The partition of the Slurm jobs.
        jobs_at_once: How many Slurm jobs are submitted at the same time.
        watch: Receives the progress of the steps.
        scheduler: The scheduler of ReFrame. Tests use ``local``.

    Attributes:
        directory: The subdirectory.
    """

    def __init__(  # noqa: PLR0913 - each argument is another part of a run
        self,
        runner: Runner,
        *,
        program: Path,
        directory: Path,
        partition: str,
        jobs_at_once: int,
        watch: StepWatch,
        scheduler: str = "slurm",
    ) -> None:
        self._runner = runner
        self._program = program
        self.directory = directory / "gridstead-steps"
        self._partition = partition
        self._jobs_at_once = jobs_at_once
        self._watch = watch
        self._scheduler = scheduler

    def run(self, steps: Sequence[Step]) -> Outcomes:
        """Run steps to their ends, and return what each one printed, or why it failed.

        Raises:
            SchedulerUnavailable: If the jobs of an earlier call could not be cancelled.
            UnexpectedOutput: If ReFrame wrote no report, or a report in an unknown format.
        """
        self._cancel_old_jobs()
        self._write_files(steps)
        self._watch.planned(len(steps))
        report_file = self.directory / "report.json"
        command = [
            str(self._program),
            "--run",
            f"--config-file={self.directory / 'settings.yaml'}",
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
        )
        with process:
            output = watch_output(process.stdout or (), self._watch)
        if not report_file.exists():
            raise UnexpectedOutput("reframe", output.decode(errors="replace"))
        return _outcomes(steps, json.loads(report_file.read_text()))

    def _cancel_old_jobs(self) -> None:
        if self._scheduler == "local":
            return
        own_jobs = (f"--user={getpass.getuser()}", f"--partition={self._partition}")
        read_output(self._runner, commands.slurm_command("scancel", *own_jobs))

    def _write_files(self, steps: Iterable[Step]) -> None:
        if self.directory.exists():
            shutil.rmtree(self.directory)
        self.directory.mkdir()
        shutil.copy(CHECKS, self.directory)
        plan = []
        for step in steps:
            script_file = self.directory / f"{step.name}.sh"
            script_file.write_text(step.script)
            plan.append(
                {
                    "name": step.name,
                    "nodes": step.nodes,
                    "tasks_per_node": step.tasks_per_node,
                    "limit_s": step.limit_s,
                    "script_file": str(script_file),
                }
            )
        (self.directory / "steps.json").write_text(json.dumps(plan))
        # JSON is a part of YAML.
        (self.directory / "settings.yaml").write_text(json.dumps(self._settings()))

    def _settings(self) -> dict[str, Any]:
        """Return the configuration of ReFrame."""
        is_local = self._scheduler == "local"
        partition = {
            "name": self._partition,
            "scheduler": self._scheduler,
            "launcher": "local" if is_local else "srun",
            "access": [] if is_local else [f"--partition={self._partition}", "--exclusive"],
            "environs": ["none"],
            "max_jobs": self._jobs_at_once,
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
        return split_tasks((directory / result["job_stdout"]).read_text(errors="replace"))
    reason = " ".join(str(result.get("fail_reason", "it failed")).split())[:_MAX_REASON_CHARS]
    error_file = directory / str(result["job_stderr"])
    if error_file.exists():
        lines = error_file.read_text(errors="replace").strip().splitlines()[-_ERROR_LINES:]
        reason += "".join(f"; {line[:_MAX_REASON_CHARS]}" for line in lines)
    return Failure(reason=reason)


def split_tasks(text: str) -> tuple[str, ...]:
    """Return the output of each task, in the order of their numbers.

    Args:
        text: The output of ``srun --label``: each line begins with the number of its task.

    Raises:
        UnexpectedOutput: If a line has no number.
    """
    lines: defaultdict[int, list[str]] = defaultdict(list)
    for line in text.splitlines():
        match = _LABELLED_LINE.fullmatch(line)
        if match is None:
            raise UnexpectedOutput("srun --label", line)
        lines[int(match[1])].append(match[2] + "\n")
    return tuple("".join(lines[task]) for task in sorted(lines))
