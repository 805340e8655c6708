# SPDX-License-Identifier: Apache-2.0
"""Slurm's commands and their output, in pairs: one function renders a command, another parses it.

Rule 1: this module runs nothing. Rule 2: all times are Unix seconds, whatever the host's time zone.
Rule 3: output that does not fit the format is an UnexpectedOutput, never a guess. Rule 4: the only
field with text of the user's choice, the job's name, comes last, so that no name can move another
field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from gridstead.adapters.slurm.command import Command
from gridstead.domain.jobs.ids import parse_job_key
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.attempt import END_STATES, STARTED_STATES, Attempt, check_state
from gridstead.errors import UnexpectedOutput

_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "SLURM_TIME_FORMAT": "%s",
}

# Field and width in bytes. Slurm cuts a value that is too long. A job key has at most 162 bytes, so
# a cut AdminComment is never a job key.
_SQUEUE_FIELDS = (
    ("JobID", 12), ("UserID", 12), ("UserName", 64), ("State", 16), ("exit_code", 10),
    ("SubmitTime", 14), ("StartTime", 14), ("EndTime", 14), ("TimeUsed", 18), ("TimeLimit", 18),
    ("NodeList", 16), ("admin_comment", 200), ("Name", 80),
)  # fmt: skip
_SQUEUE_NAME_AT = sum(width for _, width in _SQUEUE_FIELDS[:-1])

_SACCT_FIELDS = (
    "JobIDRaw", "UID", "User", "State", "ExitCode", "Submit", "Start", "End", "ElapsedRaw",
    "AdminComment", "JobName",
)  # fmt: skip
NAMES_PER_COMMAND = 1000  # 67 bytes each; the kernel accepts 128 KiB in one argument

_NEVER = frozenset({"N/A", "Unknown", "None", "NONE", ""})
_UNLIMITED = frozenset({"UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit"})
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_VERSION = re.compile(r"\S+ (\d+\.\d+\.\S+)")  # the first word is slurm or slurm-wlm
_EXIT_CODE = re.compile(r"(\d{1,3}):(\d{1,3})")
_DBD_QUEUE = re.compile(r"^\s*DBD Agent queue size: (\d+)$", re.MULTILINE)
_NODE = re.compile(r"NodeName=(\S+) .*?\bCPUEfctv=(\d+) .*?\bRealMemory=(\d+) .*?\bCfgTRES=(\S*)")
_TRES_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")


def squeue() -> Command:
    """Render the listing of all jobs of slurmctld, of all users and in all states."""
    fields = ",".join(f"{name}:{width}" for name, width in _SQUEUE_FIELDS)
    return _read("squeue", "--all", "--noheader", "--states=all", f"--Format={fields}")


def squeue_one(slurm_job_id: int) -> Command:
    """Render the listing of one job; for an unknown job it is empty, or Slurm returns an error."""
    command = squeue()
    return _read(*command.argv, f"--jobs={slurm_job_id}")


def parse_squeue(text: str) -> tuple[Attempt, ...]:
    """Return the jobs of a squeue listing, in its order.

    A row that does not fit the format is an error if it carries a job key. Otherwise it is left
    out, so that a job from outside the grid cannot stop the supervisor.
    """
    attempts = [_squeue_attempt(line) for line in _squeue_lines(text)]
    return tuple(attempt for attempt in attempts if attempt is not None)


def sacct(names: Iterable[str], *, since: int) -> Command:
    """Render the query for all records with these names, including earlier attempts."""
    return _read(
        "sacct", "--allusers", "--noheader", "--allocations", "--duplicates", "--parsable2",
        "--noconvert", f"--name={','.join(names)}", f"--starttime=uts{since}",
        "--endtime=now+1day", f"--format={','.join(_SACCT_FIELDS)}",
    )  # fmt: skip


def parse_sacct(text: str) -> tuple[Attempt, ...]:
    """Return the records of a sacct listing.

    Exit codes of 128 and more are wrong in this listing; see sacct_json.
    """
    return tuple(_sacct_attempt(line) for line in text.splitlines())


def sacct_json(slurm_job_ids: Iterable[int], *, since: int) -> Command:
    """Render the query for correct exit codes: sacct's text subtracts 128 from large ones."""
    ids = ",".join(str(slurm_job_id) for slurm_job_id in slurm_job_ids)
    return _read(
        "sacct", "--allusers", "--allocations", "--duplicates", "--json",
        f"--jobs={ids}", f"--starttime=uts{since}", "--endtime=now+1day",
    )  # fmt: skip


def parse_sacct_json(text: str) -> dict[tuple[int, int], int]:
    """Return the wait status (code << 8 | signal) by (Slurm job id, submission time)."""
    statuses: dict[tuple[int, int], int] = {}
    try:
        for job in json.loads(text)["jobs"]:
            key = (int(job["job_id"]), int(job["time"]["submission"]))
            statuses[key] = _json_status(job["exit_code"])
    except (ValueError, KeyError, TypeError) as err:
        raise UnexpectedOutput("sacct --json", text) from err
    return statuses


def sdiag() -> Command:
    """Render the query for slurmctld's statistics, which include the DBD queue."""
    return _read("sdiag")


def parse_dbd_queue(text: str) -> int:
    """Return the number of messages that slurmctld has not sent to slurmdbd yet."""
    match = _DBD_QUEUE.search(text)
    if match is None:
        raise UnexpectedOutput("sdiag", text)
    return int(match[1])


def nodes() -> Command:
    """Render the listing of the cluster's nodes."""
    return _read("scontrol", "--oneliner", "show", "nodes")


def parse_nodes(text: str) -> Hardware:
    """Return the resources of the nodes, sorted by node name."""
    nodes_by_name: dict[str, tuple[int, int, int]] = {}
    for line in text.splitlines():
        match = _NODE.match(line)
        if match is None:
            raise UnexpectedOutput("scontrol show nodes", line)
        gpus = _TRES_GPUS.search(match[4])
        nodes_by_name[match[1]] = (int(gpus[1]) if gpus else 0, int(match[2]), int(match[3]))
    rows = [nodes_by_name[name] for name in sorted(nodes_by_name)]
    return Hardware(
        gpus_per_node=tuple(gpus for gpus, _, _ in rows),
        cpus_per_node=tuple(cpus for _, cpus, _ in rows),
        memory_per_node_mb=tuple(memory for _, _, memory in rows),
    )


def associations(address: str, *, account: str) -> Command:
    """Render the query for a user's association with an account."""
    return _read(
        "sacctmgr", "--noheader", "--parsable2", "list", "associations",
        f"user={address}", f"account={account}", "format=user,account",
    )  # fmt: skip


def parse_associated(text: str, address: str, *, account: str) -> bool:
    """Return whether the listing contains the association."""
    return f"{address}|{account}" in text.splitlines()


def associate(address: str, *, account: str) -> Command:
    """Render the creation of an association."""
    return _read("sacctmgr", "--immediate", "add", "user", f"name={address}", f"account={account}")


def reconfigure() -> Command:
    """Render the command that makes slurmctld read its configuration and associations again."""
    return _read("scontrol", "reconfigure")


def version() -> Command:
    """Render the query of the installed version of Slurm."""
    return _read("scontrol", "--version")


def parse_version(text: str) -> str:
    """Return the installed version, for example ``24.11.5``."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise UnexpectedOutput("scontrol --version", text)
    return match.group(1)


def token(user: str, *, life_s: int) -> Command:
    """Render the creation of a token for slurmrestd."""
    return _read("scontrol", "token", f"username={user}", f"lifespan={life_s}")


def parse_token(text: str) -> str:
    """Return the token."""
    name, _, value = text.strip().partition("=")
    if name != "SLURM_JWT" or not value:
        raise UnexpectedOutput("scontrol token", "(hidden)")
    return value


def _read(*argv: str) -> Command:
    return Command(argv=argv, environment=_ENVIRONMENT)


def _squeue_lines(text: str) -> Iterator[str]:
    """Yield one line per job.

    A line that is too short for a job belongs to a name with a line break.
    """
    line = ""
    for piece in text.split("\n"):
        if len(piece) >= _SQUEUE_NAME_AT and line:
            yield line
            line = piece
        else:
            line = f"{line}\n{piece}" if line else piece
    if line.strip():
        yield line.rstrip("\n")


def _squeue_attempt(line: str) -> Attempt | None:
    if len(line) < _SQUEUE_NAME_AT:
        raise UnexpectedOutput("squeue", line)
    values = []
    start = 0
    for _, width in _SQUEUE_FIELDS[:-1]:
        values.append(line[start : start + width].strip())
        start += width
    try:
        return _read_squeue(values, name=line[start:].rstrip())
    except UnexpectedOutput:
        if parse_job_key(values[-1]) is None:
            return None
        raise


def _read_squeue(values: list[str], *, name: str) -> Attempt:
    job_id, uid, user, state, exit_code, submit, begin, end, used, limit, node_list, comment = (
        values
    )
    base = check_state(state, source="squeue")
    started_at = _squeue_start(base, begin, has_nodes=bool(node_list))
    ended_at = _time("squeue", end) if base in END_STATES else None
    return Attempt(
        slurm_job_id=_number("squeue", job_id),
        name=name,
        job_key=parse_job_key(comment),
        user=user,
        uid=_number("squeue", uid),
        state=base,
        submitted_at=_number("squeue", submit),
        started_at=started_at,
        ended_at=ended_at,
        # Only ended jobs need this value. Slurm may report the time of a live job as INVALID, for
        # example after the clock was set.
        suspended_s=0 if ended_at is None else _suspended_s(started_at, ended_at, _seconds(used)),
        exit_code=_status("squeue", exit_code),
        time_limit_min=None if limit in _UNLIMITED else _seconds(limit) // 60,
    )


def _squeue_start(state: str, begin: str, *, has_nodes: bool) -> int | None:
    """Return the start time of a job that has started.

    Slurm shows an estimate for a queued job, and the end time for a job cancelled in the queue.
    """
    if state not in STARTED_STATES and state not in END_STATES:
        return None
    return _time("squeue", begin) if has_nodes else None


def _sacct_attempt(line: str) -> Attempt:
    values = line.split("|", len(_SACCT_FIELDS) - 1)
    if len(values) != len(_SACCT_FIELDS):
        raise UnexpectedOutput("sacct", line)
    job_id, uid, user, state, exit_code, submit, begin, end, elapsed, comment, name = values
    base = check_state(state, source="sacct")
    started_at = _time("sacct", begin)
    ended_at = _time("sacct", end) if base in END_STATES else None
    return Attempt(
        slurm_job_id=_number("sacct", job_id),
        name=name,
        job_key=parse_job_key(comment),
        user=user,
        uid=_number("sacct", uid),
        state=base,
        submitted_at=_number("sacct", submit),
        started_at=started_at,
        ended_at=ended_at,
        suspended_s=_suspended_s(started_at, ended_at, _number("sacct", elapsed)),
        exit_code=_status("sacct", exit_code),
    )


def _json_status(exit_code: dict[str, Any]) -> int:
    return int(exit_code["return_code"]["number"]) << 8 | int(exit_code["signal"]["id"]["number"])


def _suspended_s(started_at: int | None, ended_at: int | None, elapsed_s: int) -> int:
    if started_at is None or ended_at is None:
        return 0
    return max(0, ended_at - started_at - elapsed_s)


def _number(source: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise UnexpectedOutput(source, text)
    return int(text)


def _time(source: str, text: str) -> int | None:
    return None if text in _NEVER else _number(source, text)


def _seconds(text: str) -> int:
    """Return a duration of the form days-hours:minutes:seconds in seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UnexpectedOutput("squeue", text)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _status(source: str, text: str) -> int:
    match = _EXIT_CODE.fullmatch(text)
    if match is None:
        raise UnexpectedOutput(source, text)
    return int(match[1]) << 8 | int(match[2])
