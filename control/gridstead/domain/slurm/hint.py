# SPDX-License-Identifier: Apache-2.0
"""Parses and checks the hints about Slurm jobs that the plugins send.

The SPANK plugin and the prolog on a node, and the job completion plugin of slurmctld, send hints.
The only effect of a hint is that a service checks a job sooner or lowers its bill. So an invalid
hint can be dropped.

Rule 1: only root on a node may send a report. The report must come from the address of a node, in a
MUNGE credential with a short validity.
Rule 2: a node's report is a hint only if it is about the batch step. The extern step, for example,
lasts as long as the allocation.
Rule 3: a token bucket limits the rate of reports.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from gridstead.domain.jobs.ids import parse_job_key
from gridstead.errors import NotAllowed, UnexpectedOutput

ROOT_UID = 0
MAX_CREDENTIAL_TTL_S = 60
_BATCH_STEP_NAMES = frozenset({"batch", "4294967291"})  # the number is SLURM_BATCH_SCRIPT
_RECORD_VERSION = 1
# For example: gridstead1 end 17 200001 batch node1 0 1700000000
_REPORT = re.compile(
    r"gridstead1 (start|end|pre_hook_failed) (\d{1,10}) (\d{1,10}) ([a-z0-9]{1,16}) "
    r"[\w.-]{1,255} \d{1,12} (\d{1,12})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A hint about a Slurm job.

    Attributes:
        event: ``start``, ``end``, ``pre_hook_failed`` or ``record``, as in ``NodeReport``.
        slurm_job_id: The Slurm job id.
        uid: The user id of the job.
        occurred_at: The time of the event, Unix seconds.
    """

    event: str
    slurm_job_id: int
    uid: int
    occurred_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MungeCredential:
    """An opened MUNGE credential.

    Attributes:
        payload: The content.
        uid: The user that created the credential.
        ttl_s: How long the credential is valid after its creation, seconds.
    """

    payload: bytes
    uid: int
    ttl_s: int


def report_of_root(credential: MungeCredential) -> str:
    """Return the report in a credential that root created with a short validity.

    Raises:
        NotAllowed: If another user created the credential, or if the credential is valid too long.
    """
    if credential.uid != ROOT_UID:
        raise NotAllowed(f"uid {credential.uid} may not send reports")
    if not 0 < credential.ttl_s <= MAX_CREDENTIAL_TTL_S:
        raise NotAllowed(
            "the credential of a report is valid for too long",
            detail=f"{credential.ttl_s} s, at most {MAX_CREDENTIAL_TTL_S} s",
        )
    return credential.payload.decode("ascii", errors="replace")


def parse_report(text: str) -> Hint | None:
    """Return the hint in a node's report. Returns None if the report is not about the batch step.

    Raises:
        UnexpectedOutput: If the text is not a report.
    """
    match = _REPORT.fullmatch(text)
    if match is None:
        raise UnexpectedOutput("node report", text)
    event, slurm_job_id, uid, step, time = match.groups()
    if step not in _BATCH_STEP_NAMES:
        return None
    return Hint(event=event, slurm_job_id=int(slurm_job_id), uid=int(uid), occurred_at=int(time))


def parse_completion(line: str) -> Hint | None:
    """Return the hint in a line of the job completion spool.

    Returns None if the job is not a job of the grid.

    Raises:
        UnexpectedOutput: If the line is truncated or has another version.
    """
    try:
        record = json.loads(line)
        version, comment = record["version"], record["admin_comment"]
        slurm_job_id, uid = int(record["slurm_job_id"]), int(record["uid"])
        ended_at = int(record["end_s"] or 0)
    except (ValueError, KeyError, TypeError) as err:
        raise UnexpectedOutput("job completion", line) from err
    if version != _RECORD_VERSION:
        raise UnexpectedOutput("job completion", line)
    if not isinstance(comment, str) or parse_job_key(comment) is None:
        return None
    return Hint(event="record", slurm_job_id=slurm_job_id, uid=uid, occurred_at=ended_at)


@dataclass(slots=True, kw_only=True)
class TokenBucket:
    """A token bucket.

    Attributes:
        rate_per_s: The number of tokens that are added per second.
        burst: The maximum number of tokens.
    """

    rate_per_s: float
    burst: float
    _tokens: float = -1.0  # negative before the first call
    _refilled_at: float = 0.0

    def take(self, now: float) -> bool:
        """Take a token if the bucket contains a token. Return whether a token was taken.

        Unit: ``now`` seconds since any fixed time.
        """
        if self._tokens < 0:
            self._tokens = self.burst
        else:
            added_tokens = max(0.0, now - self._refilled_at) * self.rate_per_s
            self._tokens = min(self.burst, self._tokens + added_tokens)
        self._refilled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
