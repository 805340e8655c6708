# SPDX-License-Identifier: Apache-2.0
"""What is asked of the login node, as pairs: the one program that the operator may run as root, and
two look-ups.

The program's exit status says who must act: 0 done, 64 not understood, 69 refused by Slurm,
anything else not known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from gridstead.adapters.slurm.command import Command, CommandResult
from gridstead.domain.submission import GridUser, Submission
from gridstead.errors import (
    GridsteadError,
    InvalidInput,
    SchedulerUnavailable,
    SubmitRejected,
    UnexpectedOutput,
)

_PROGRAM = ("sudo", "-n", "/usr/local/sbin/gridstead-submit")
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
# The option keeps its first name, so that either end may be of the release before.
_JOB_KEY_OPTION = "proof"
_DONE, _NOT_UNDERSTOOD, _REFUSED = 0, 64, 69
_GETENT_UNKNOWN = 2


def submit(submission: Submission, environment: Mapping[str, str]) -> Command:
    """Render a submission; script and environment travel on standard input, never in arguments."""
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
    return _program(
        "submit",
        options,
        json.dumps({"script": submission.script.text, "environment": dict(environment)}),
    )


def parse_submitted(outcome: CommandResult, what: str) -> int:
    """Return the Slurm job id.

    Raises:
        SubmitRejected: Nothing was queued.
        SchedulerUnavailable: It is not known whether it was.
    """
    if outcome.exit_status in (_NOT_UNDERSTOOD, _REFUSED):
        raise SubmitRejected(what, detail=_told(outcome))
    text = outcome.stdout.strip()
    if outcome.exit_status != _DONE or not text.isascii() or not text.isdigit():
        raise SchedulerUnavailable(what, detail=_told(outcome))
    return int(text)


def cancel(slurm_job_id: int, *, job_key: str) -> Command:
    """Render the ending of a job that carries this job key."""
    return _program("cancel", {"slurm-job-id": slurm_job_id, _JOB_KEY_OPTION: job_key})


def extend(slurm_job_id: int, *, job_key: str, time_limit_min: int) -> Command:
    """Render the raising of the limit of a job that carries this job key."""
    options = {
        "slurm-job-id": slurm_job_id,
        _JOB_KEY_OPTION: job_key,
        "time-limit-min": time_limit_min,
    }
    return _program("extend", options)


def associate(address: str) -> Command:
    """Render the making of a user's association."""
    return _program("associate", {"user": address})


def check_done(outcome: CommandResult, what: str) -> None:
    """Return if the program did what it was asked.

    Raises:
        InvalidInput: It did not understand, and did nothing.
        SchedulerUnavailable: It is not known what it did.
    """
    if outcome.exit_status == _DONE:
        return
    failure: type[GridsteadError] = (
        InvalidInput if outcome.exit_status == _NOT_UNDERSTOOD else SchedulerUnavailable
    )
    raise failure(what, detail=_told(outcome))


def user(address: str) -> Command:
    """Render the look-up of an account."""
    return Command(argv=("getent", "passwd", address), environment=_ENVIRONMENT)


def parse_user(outcome: CommandResult, address: str) -> GridUser | None:
    """Return the account that the name resolves to, None if it resolves to none."""
    if outcome.exit_status == _GETENT_UNKNOWN:
        return None
    fields = outcome.stdout.strip().split(":")
    if outcome.exit_status != 0 or len(fields) != 7 or fields[0] != address:
        raise UnexpectedOutput("getent passwd", outcome.stdout or outcome.stderr)
    return GridUser(address=address, uid=int(fields[2]), gid=int(fields[3]))


def directories(paths: tuple[Path, ...]) -> Command:
    """Render the question whose these directories are."""
    return Command(argv=("stat", "--format=%u %F %n", *map(str, paths)), environment=_ENVIRONMENT)


def parse_missing(outcome: CommandResult, paths: tuple[Path, ...], *, uid: int) -> tuple[str, ...]:
    """Return the directories that are not there or not the user's, in words."""
    found = set(outcome.stdout.splitlines())
    return tuple(
        f"directory {path} is not there for uid {uid}"
        for path in paths
        if f"{uid} directory {path}" not in found
    )


def _program(sub_command: str, options: Mapping[str, object], stdin: str = "") -> Command:
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return Command(argv=(*_PROGRAM, sub_command, *words), environment=_ENVIRONMENT, stdin=stdin)


def _told(outcome: CommandResult) -> str:
    return f"exit status {outcome.exit_status}: {outcome.stderr.strip()[:500]!r}"
