# SPDX-License-Identifier: Apache-2.0
"""Commands for the login node, in pairs: one function renders a command, one parses its result.

The operator's account may run only the program gridstead-submit as root. The exit status of the
program is 0 for success, 64 for an invalid request, and 69 for a rejection by Slurm. After any
other status the result is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from gridstead.adapters.slurm.runner import Command, CommandResult
from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.supervisor.submission import GridUser, Submission
from gridstead.errors import (
    InvalidInput,
    SchedulerUnavailable,
    SubmitRejected,
    UnexpectedOutput,
)

_PROGRAM = ("sudo", "-n", "/usr/local/sbin/gridstead-submit")
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
# The option keeps its old name, because the login node may still run the previous release.
_JOB_KEY_OPTION = "proof"
_SUCCESS, _INVALID_REQUEST, _REJECTED = 0, 64, 69
_GETENT_NOT_FOUND = 2
_PASSWD_FIELDS = 7


def submit(submission: Submission, environment: Mapping[str, str]) -> Command:
    """Render the submission of a job. Standard input contains the script and the environment."""
    resources = submission.resources
    options = {
        _JOB_KEY_OPTION: str(submission.job_key),
        "user": submission.user.address,
        "uid": submission.user.uid,
        "gid": submission.user.gid,
        "tasks": resources.tasks,
        "cpus-per-task": resources.cpus_per_task,
        "memory-per-cpu-mb": resources.memory_per_cpu_mb,
        "gpus": resources.gpus,
        "time-limit-min": submission.time_limit_min,
    }
    job = {"script": submission.script.text, "environment": dict(environment)}
    return _program("submit", options, json.dumps(job))


def parse_submitted(result: CommandResult, message: str) -> int:
    """Return the Slurm job id of a submission.

    Raises:
        SubmitRejected: If the job was rejected. Nothing was submitted.
        SchedulerUnavailable: If it is unknown whether the job was submitted.
    """
    if result.exit_status in (_INVALID_REQUEST, _REJECTED):
        raise SubmitRejected(message, detail=_describe(result))
    text = result.stdout.strip()
    if result.exit_status != _SUCCESS or not text.isascii() or not text.isdigit():
        raise SchedulerUnavailable(message, detail=_describe(result))
    return int(text)


def cancel(slurm_job_id: int, *, job_key: JobKey) -> Command:
    """Render the cancellation of a Slurm job that has this job key."""
    return _program("cancel", {"slurm-job-id": slurm_job_id, _JOB_KEY_OPTION: job_key})


def extend(slurm_job_id: int, *, job_key: JobKey, time_limit_min: int) -> Command:
    """Render the extension of the time limit of a Slurm job that has this job key."""
    options = {
        "slurm-job-id": slurm_job_id,
        _JOB_KEY_OPTION: job_key,
        "time-limit-min": time_limit_min,
    }
    return _program("extend", options)


def associate(address: str) -> Command:
    """Render the command that creates the association of a user in Slurm's accounting."""
    return _program("associate", {"user": address})


def check_success(result: CommandResult, message: str) -> None:
    """Check that the program succeeded.

    Raises:
        InvalidInput: If the request was invalid. Nothing was changed.
        SchedulerUnavailable: If Slurm rejected the request, or the result is unknown.
    """
    if result.exit_status == _SUCCESS:
        return
    if result.exit_status == _INVALID_REQUEST:
        raise InvalidInput(message, detail=_describe(result))
    raise SchedulerUnavailable(message, detail=_describe(result))


def user(address: str) -> Command:
    """Render the command that prints the Linux account of a user name."""
    return Command(argv=("getent", "passwd", address), environment=_ENVIRONMENT)


def parse_user(result: CommandResult, address: str) -> GridUser | None:
    """Return the account of a user name. Returns None if the name does not resolve.

    Raises:
        UnexpectedOutput: If the output is not a passwd line of this user name.
    """
    if result.exit_status == _GETENT_NOT_FOUND:
        return None
    fields = result.stdout.strip().split(":")
    if result.exit_status != 0 or len(fields) != _PASSWD_FIELDS or fields[0] != address:
        raise UnexpectedOutput("getent passwd", result.stdout or result.stderr)
    return GridUser(address=address, uid=int(fields[2]), gid=int(fields[3]))


def directories(paths: tuple[Path, ...]) -> Command:
    """Render the command that prints the owner and the type of each directory."""
    return Command(argv=("stat", "--format=%u %F %n", *map(str, paths)), environment=_ENVIRONMENT)


def parse_missing(result: CommandResult, paths: tuple[Path, ...], *, uid: int) -> tuple[str, ...]:
    """Return a message for each directory that does not exist or does not belong to the user."""
    lines = set(result.stdout.splitlines())
    missing_paths = [path for path in paths if f"{uid} directory {path}" not in lines]
    return tuple(f"directory {path} does not exist for uid {uid}" for path in missing_paths)


def _program(subcommand: str, options: Mapping[str, object], stdin: str = "") -> Command:
    arguments: list[str] = []
    for name, value in options.items():
        arguments += [f"--{name}", str(value)]
    argv = (*_PROGRAM, subcommand, *arguments)
    return Command(argv=argv, environment=_ENVIRONMENT, stdin=stdin)


def _describe(result: CommandResult) -> str:
    return f"exit status {result.exit_status}: {result.stderr.strip()[:500]!r}"
