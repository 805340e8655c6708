# SPDX-License-Identifier: Apache-2.0
"""Queries of slurmdbd for how jobs failed: their exit codes, and the step with which each failed.

The rules of ``commands.py`` apply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gridstead.adapters.slurm.commands import EXIT_CODE, slurm_command
from gridstead.adapters.slurm.runner import Command
from gridstead.domain.supervisor.attempt import OUT_OF_MEMORY_SIGNAL
from gridstead.errors import UnexpectedOutput

_STEP_ID = re.compile(r"(\d+)\.(\d+)")  # 12.0 is the first step of job 12


def sacct_json(slurm_job_ids: Iterable[int], *, since: int) -> Command:
    """Render the query for exit codes as JSON. The text format subtracts 128 from large codes."""
    ids = ",".join(str(slurm_job_id) for slurm_job_id in slurm_job_ids)
    return slurm_command(
        "sacct", "--allusers", "--allocations", "--duplicates", "--json",
        f"--jobs={ids}", f"--starttime=uts{since}", "--endtime=now+1day",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExit:
    """How a job ended.

    Attributes:
        wait_status: The exit code of the batch script (code << 8 | signal).
        is_step_out_of_memory: Whether the derived exit code shows that a step exceeded its memory.
            False if another step failed with an exit code: Slurm keeps the highest exit code of all
            steps.
    """

    wait_status: int
    is_step_out_of_memory: bool


def parse_sacct_json(text: str) -> dict[tuple[int, int], JobExit]:
    """Return how jobs ended, by (Slurm job id, submission time)."""
    exits: dict[tuple[int, int], JobExit] = {}
    try:
        for job in json.loads(text)["jobs"]:
            key = (int(job["job_id"]), int(job["time"]["submission"]))
            step_exit = job.get("derived_exit_code")
            step_status = _json_wait_status(step_exit) if step_exit else 0
            exits[key] = JobExit(
                wait_status=_json_wait_status(job["exit_code"]),
                is_step_out_of_memory=step_status == OUT_OF_MEMORY_SIGNAL,
            )
    except (ValueError, KeyError, TypeError) as err:
        raise UnexpectedOutput("sacct --json", text) from err
    return exits


def sacct_steps(slurm_job_ids: Iterable[int], *, since: int) -> Command:
    """Render the query for the exit codes of jobs and their steps."""
    ids = ",".join(str(slurm_job_id) for slurm_job_id in slurm_job_ids)
    return slurm_command(
        "sacct", "--allusers", "--noheader", "--parsable2", f"--jobs={ids}",
        f"--starttime=uts{since}", "--endtime=now+1day", "--format=JobIDRaw,ExitCode",
    )  # fmt: skip


def parse_failed_steps(text: str) -> dict[int, int]:
    """Return the number of the step with which each job failed, by Slurm job id.

    It is the job's last step with the exit code of the job. Steps are counted from 1, in the order
    in which Slurm created them. A job without such a step is left out: for example, its script
    exited with another code.
    """
    job_codes: dict[int, str] = {}
    last_steps: dict[tuple[int, str], int] = {}
    for line in text.splitlines():
        record_id, _, exit_code = line.partition("|")
        if EXIT_CODE.fullmatch(exit_code) is None:
            raise UnexpectedOutput("sacct", line)
        step = _STEP_ID.fullmatch(record_id)
        if step is not None:
            key = (int(step[1]), exit_code)
            last_steps[key] = max(last_steps.get(key, 0), int(step[2]) + 1)
        elif record_id.isdecimal():
            job_codes[int(record_id)] = exit_code
    failed_steps: dict[int, int] = {}
    for key, number in last_steps.items():
        slurm_job_id, exit_code = key
        if job_codes.get(slurm_job_id) == exit_code:
            failed_steps[slurm_job_id] = number
    return failed_steps


def _json_wait_status(exit_code: dict[str, Any]) -> int:
    return_code = int(exit_code["return_code"]["number"])
    signal = int(exit_code["signal"]["id"]["number"])
    return return_code << 8 | signal
