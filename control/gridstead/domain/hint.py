# SPDX-License-Identifier: Apache-2.0
"""Hints: what a node's plugin or the job completion plugin says of an attempt, and which of it may
pass.

A hint makes someone look sooner and is at most a reason to bill less, so a doubtful one is dropped.
Rule 1: only root on a node may speak, from a node's address, with a seal that is young. Rule 2:
only the batch step counts; the extern step starts and ends with the allocation. Rule 3: nobody may
speak faster than the rate.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from gridstead.domain.ids import parse_job_key
from gridstead.errors import NotAllowed, UnexpectedOutput

ROOT_UID = 0
SEAL_LIFE_MAX_S = 60
_BATCH_STEP = frozenset({"batch", "4294967291"})
_RECORD_VERSION = 1
_REPORT = re.compile(
    r"gridstead1 (start|end) (\d{1,10}) (\d{1,10}) ([a-z0-9]{1,16}) [\w.-]{1,255} \d{1,12} (\d{1,12})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """What was said: ``start``, ``end`` or ``record`` of an attempt. Unit of ``at``: Unix seconds."""

    event: str
    slurm_job_id: int
    uid: int
    occurred_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSeal:
    """A MUNGE credential that was opened: what it held, whose process sealed it, how long it may
    live (seconds).
    """

    payload: bytes
    uid: int
    life_s: int


def admit(seal: OpenedSeal) -> str:
    """Return the text of a report that root sealed for a short life.

    Raises:
        NotAllowed: If anybody else did, or for longer.
    """
    if seal.uid != ROOT_UID:
        raise NotAllowed(f"uid {seal.uid} cannot report")
    if not 0 < seal.life_s <= SEAL_LIFE_MAX_S:
        raise NotAllowed(
            "report lives too long", detail=f"{seal.life_s} s, at most {SEAL_LIFE_MAX_S} s"
        )
    return seal.payload.decode("ascii", errors="replace")


def parse_report(text: str) -> Hint | None:
    """Return the hint in a node's report, None if it is about another step than the batch step.

    Raises:
        UnexpectedOutput: If it is no report.
    """
    match = _REPORT.fullmatch(text)
    if match is None:
        raise UnexpectedOutput("node report", text)
    event, slurm_job_id, uid, step, at = match.groups()
    if step not in _BATCH_STEP:
        return None
    return Hint(event=event, slurm_job_id=int(slurm_job_id), uid=int(uid), occurred_at=int(at))


def parse_completion(line: str) -> Hint | None:
    """Return the hint in a line of the job completion spool, None if the job is nobody's of the
    grid.

    Raises:
        UnexpectedOutput: If the line is cut, or of another version.
    """
    try:
        record = json.loads(line)
        version, comment, ended_at = (
            record["version"],
            record["admin_comment"],
            int(record["end_s"] or 0),
        )
        slurm_job_id, uid = int(record["slurm_job_id"]), int(record["uid"])
    except (ValueError, KeyError, TypeError) as err:
        raise UnexpectedOutput("job completion", line) from err
    if version != _RECORD_VERSION:
        raise UnexpectedOutput("job completion", line)
    if not isinstance(comment, str) or parse_job_key(comment) is None:
        return None
    return Hint(event="record", slurm_job_id=slurm_job_id, uid=uid, occurred_at=ended_at)


@dataclass(slots=True, kw_only=True)
class RateLimit:
    """Lets through so many per second on average, and a burst of as many at once as ``burst``."""

    per_second: float
    burst: float
    _tokens: float = -1.0
    _at: float = 0.0

    def allows(self, now: float) -> bool:
        """Count one more at this moment (seconds, any origin) and return whether it may pass."""
        if self._tokens < 0:
            self._tokens = self.burst
        else:
            self._tokens = min(
                self.burst, self._tokens + max(0.0, now - self._at) * self.per_second
            )
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
