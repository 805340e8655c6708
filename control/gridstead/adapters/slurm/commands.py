# SPDX-License-Identifier: Apache-2.0
"""Slurm's commands and their output: one function renders a command, another parses its output.

Rule 1: this module does not run the commands.
Rule 2: all times are Unix seconds, independently of the time zone of the host.
Rule 3: output with an unknown format raises UnexpectedOutput.
Rule 4: the job name is the last field of each listing. Users choose the text of this field and of
no other field. Because the job name is last, separators in it cannot shift other fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gridstead.adapters.slurm.runner import Command
from gridstead.domain.jobs.ids import parse_job_key
from gridstead.domain.supervisor.attempt import (
    END_STATES,
    STARTED_STATES,
    Attempt,
    parse_base_state,
)
from gridstead.errors import UnexpectedOutput

_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "SLURM_TIME_FORMAT": "%s",
}

# Field and width in bytes. Slurm truncates a longer value. A job key has at most 162 bytes, so a
# truncated AdminComment is never a job key.
_SQUEUE_FIELDS = (
    ("JobID", 12), ("UserID", 12), ("UserName", 64), ("State", 16), ("exit_code", 10),
    ("SubmitTime", 14), ("StartTime", 14), ("EndTime", 14), ("TimeUsed", 18), ("TimeLimit", 18),
    ("NodeList", 16), ("admin_comment", 200), ("Name", 80),
)  # fmt: skip
_SQUEUE_NAME_START = sum(width for _, width in _SQUEUE_FIELDS[:-1])

_SACCT_FIELDS = (
    "JobIDRaw", "UID", "User", "State", "ExitCode", "Submit", "Start", "End", "ElapsedRaw",
    "AdminComment", "JobName",
)  # fmt: skip
NAMES_PER_COMMAND = 1000  # 67 bytes each. The kernel accepts 128 KiB in one argument.

_NO_TIME_TEXTS = frozenset({"N/A", "Unknown", "None", "NONE", ""})
_UNLIMITED_TEXTS = frozenset({"UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit"})
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")  # 1-02:03:04 or 03:04
_VERSION = re.compile(r"\S+ (\d+\.\d+\.\S+)")  # The first word is slurm or slurm-wlm.
EXIT_CODE = re.compile(r"(\d{1,3}):(\d{1,3})")  # code:signal
_DBD_QUEUE = re.compile(r"^\s*DBD Agent queue size: (\d+)$", re.MULTILINE)


def squeue() -> Command:
    """Render the command that lists all jobs of slurmctld, of all users and in all states."""
    fields = ",".join(f"{name}:{width}" for name, width in _SQUEUE_FIELDS)
    return slurm_command("squeue", "--all", "--noheader", "--states=all", f"--Format={fields}")


def squeue_job(slurm_job_id: int) -> Command:
    """Render the command that lists one job.

    If slurmctld does not have the job, the listing is empty or the command fails.
    """
    command = squeue()
    return slurm_command(*command.argv, f"--jobs={slurm_job_id}")


def parse_squeue(text: str) -> tuple[Attempt, ...]:
    """Return the jobs of a squeue listing in order.

    A malformed row without a job key is skipped, so that a job from outside the grid cannot stop
    the supervisor.

    Raises:
        UnexpectedOutput: If a row with a job key is malformed.
    """
    attempts = [_squeue_attempt(line) for line in _squeue_lines(text)]
    return tuple(attempt for attempt in attempts if attempt is not None)


def sacct(names: Iterable[str], *, since: int) -> Command:
    """Render the query for all records of jobs with the ``names``, including earlier attempts."""
    return slurm_command(
        "sacct", "--allusers", "--noheader", "--allocations", "--duplicates", "--parsable2",
        "--noconvert", f"--name={','.join(names)}", f"--starttime=uts{since}",
        "--endtime=now+1day", f"--format={','.join(_SACCT_FIELDS)}",
    )  # fmt: skip


def parse_sacct(text: str) -> tuple[Attempt, ...]:
    """Return the records of a sacct listing.

    Exit codes of 128 and more are wrong in this listing. The output of the command
    ``sacct_json`` (``failures.py``) has the correct exit codes.
    """
    return tuple(_sacct_attempt(line) for line in text.splitlines())


def sdiag() -> Command:
    """Render the query for the statistics of slurmctld, such as its queue of slurmdbd messages."""
    return slurm_command("sdiag")


def parse_dbd_queue(text: str) -> int:
    """Return the number of messages that slurmctld has not sent to slurmdbd yet."""
    match = _DBD_QUEUE.search(text)
    if match is None:
        raise UnexpectedOutput("sdiag", text)
    return int(match[1])


def associations(address: str, *, account: str) -> Command:
    """Render the query for a user's association with an account."""
    return slurm_command(
        "sacctmgr", "--noheader", "--parsable2", "list", "associations",
        f"user={address}", f"account={account}", "format=user,account",
    )  # fmt: skip


def parse_associated(text: str, address: str, *, account: str) -> bool:
    """Return whether a listing contains the association of a user with an account."""
    return f"{address}|{account}" in text.splitlines()


def associate(address: str, *, account: str) -> Command:
    """Render the command that creates the association of a user with an account."""
    return slurm_command(
        "sacctmgr", "--immediate", "add", "user", f"name={address}", f"account={account}"
    )


def reconfigure() -> Command:
    """Render the command that makes slurmctld read its configuration and associations again."""
    return slurm_command("scontrol", "reconfigure")


def version() -> Command:
    """Render the query for the installed version of Slurm."""
    return slurm_command("scontrol", "--version")


def parse_version(text: str) -> str:
    """Return the installed version, for example ``24.11.5``."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise UnexpectedOutput("scontrol --version", text)
    return match.group(1)


def token(user: str, *, life_s: int) -> Command:
    """Render the command that creates a token for slurmrestd."""
    return slurm_command("scontrol", "token", f"username={user}", f"lifespan={life_s}")


def parse_token(text: str) -> str:
    """Return the token in the output of ``scontrol token``."""
    name, _, value = text.strip().partition("=")
    if name != "SLURM_JWT" or not value:
        raise UnexpectedOutput("scontrol token", "(hidden)")
    return value


def slurm_command(*argv: str) -> Command:
    """Return a command with the environment of all commands of Slurm."""
    return Command(argv=argv, environment=_ENVIRONMENT)


def _squeue_lines(text: str) -> Iterator[str]:
    """Yield the text of each job.

    A job name may contain line breaks. So a line that is too short to be a job is the rest of the
    previous job's name.
    """
    job_text = ""
    for line in text.split("\n"):
        is_new_job = len(line) >= _SQUEUE_NAME_START
        if job_text and is_new_job:
            yield job_text
            job_text = line
        elif job_text:
            job_text = f"{job_text}\n{line}"
        else:
            job_text = line
    if job_text.strip():
        yield job_text.rstrip("\n")


def _squeue_attempt(line: str) -> Attempt | None:
    if len(line) < _SQUEUE_NAME_START:
        raise UnexpectedOutput("squeue", line)
    values = []
    start = 0
    for _, width in _SQUEUE_FIELDS[:-1]:
        values.append(line[start : start + width].strip())
        start += width
    try:
        return _attempt_from_fields(values, name=line[start:].rstrip())
    except UnexpectedOutput:
        if parse_job_key(values[-1]) is None:
            return None
        raise


def _attempt_from_fields(values: list[str], *, name: str) -> Attempt:
    (
        job_id, uid, user, state, exit_code, submit_time, start_time, end_time, time_used,
        time_limit, node_list, admin_comment,
    ) = values  # fmt: skip
    base_state = parse_base_state(state, source="squeue")
    started_at = _squeue_start(base_state, start_time, has_nodes=bool(node_list))
    ended_at = None
    suspended_s = 0
    if base_state in END_STATES:
        ended_at = _parse_time("squeue", end_time)
    if ended_at is not None:
        # The time used is read only for ended jobs. For a live job Slurm may report it as INVALID,
        # for example after the clock was set.
        suspended_s = _suspended_s(started_at, ended_at, _parse_duration(time_used))
    return Attempt(
        slurm_job_id=_parse_number("squeue", job_id),
        name=name,
        job_key=parse_job_key(admin_comment),
        user=user,
        uid=_parse_number("squeue", uid),
        state=base_state,
        submitted_at=_parse_number("squeue", submit_time),
        started_at=started_at,
        ended_at=ended_at,
        suspended_s=suspended_s,
        exit_code=_parse_wait_status("squeue", exit_code),
        time_limit_min=_squeue_time_limit_min(time_limit),
    )


def _squeue_time_limit_min(time_limit: str) -> int | None:
    if time_limit in _UNLIMITED_TEXTS:
        return None
    return _parse_duration(time_limit) // 60


def _squeue_start(state: str, start_time: str, *, has_nodes: bool) -> int | None:
    """Return the start time of a job. Returns None if the job has not started.

    For a queued job squeue shows an estimated start time. For a job that was cancelled in the
    queue, and so has no nodes, squeue shows the end time as the start time.
    """
    if state not in STARTED_STATES and state not in END_STATES:
        return None
    return _parse_time("squeue", start_time) if has_nodes else None


def _sacct_attempt(line: str) -> Attempt:
    values = line.split("|", len(_SACCT_FIELDS) - 1)
    if len(values) != len(_SACCT_FIELDS):
        raise UnexpectedOutput("sacct", line)
    (
        job_id, uid, user, state, exit_code, submit_time, start_time, end_time, elapsed,
        admin_comment, name,
    ) = values  # fmt: skip
    base_state = parse_base_state(state, source="sacct")
    started_at = _parse_time("sacct", start_time)
    ended_at = _parse_time("sacct", end_time) if base_state in END_STATES else None
    return Attempt(
        slurm_job_id=_parse_number("sacct", job_id),
        name=name,
        job_key=parse_job_key(admin_comment),
        user=user,
        uid=_parse_number("sacct", uid),
        state=base_state,
        submitted_at=_parse_number("sacct", submit_time),
        started_at=started_at,
        ended_at=ended_at,
        suspended_s=_suspended_s(started_at, ended_at, _parse_number("sacct", elapsed)),
        exit_code=_parse_wait_status("sacct", exit_code),
    )


def _suspended_s(started_at: int | None, ended_at: int | None, elapsed_s: int) -> int:
    if started_at is None or ended_at is None:
        return 0
    return max(0, ended_at - started_at - elapsed_s)


def _parse_number(source: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise UnexpectedOutput(source, text)
    return int(text)


def _parse_time(source: str, text: str) -> int | None:
    return None if text in _NO_TIME_TEXTS else _parse_number(source, text)


def _parse_duration(text: str) -> int:
    """Return the seconds of a duration in the format days-hours:minutes:seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UnexpectedOutput("squeue", text)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _parse_wait_status(source: str, text: str) -> int:
    """Return the wait status (code << 8 | signal) of an exit code in the format code:signal."""
    match = EXIT_CODE.fullmatch(text)
    if match is None:
        raise UnexpectedOutput(source, text)
    return int(match[1]) << 8 | int(match[2])
