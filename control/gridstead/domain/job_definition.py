# SPDX-License-Identifier: Apache-2.0
"""What the Job Definition service and a provider say to each other, as values.

The id of a stored script is a hash of its record, which holds a salt: the chain, which has the id,
so binds job and script, and equal scripts do not look equal.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gridstead.domain.ids import is_batch_location_hash
from gridstead.domain.job import Job
from gridstead.domain.lifecycle import JobState

ID_LENGTH = 31

Recover: TypeAlias = Callable[[bytes, bytes], str]
"""(message, signature) to the address, lower case, whose wallet signed the message as EIP-191 text. The signature is
r, s and v, v being 0, 1, 27 or 28, as wallets differ. Raises InvalidInput if it is none."""

_OPEN = frozenset({JobState.META_SCHEDULED, JobState.SCHEDULED, JobState.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRequest:
    """A provider asks for the script of a job. Every field is untrusted.

    Attributes:
        batch_location_hash: Id of the script.
        challenge: What the service gave to be signed.
        signature: Of the challenge.
        provider: Address, lower case.
        customer: Address, lower case.
        job_number: The contract's counter.
        secrets_beside: Whether the caller can pass secrets beside the script.
    """

    batch_location_hash: str
    challenge: bytes
    signature: bytes
    provider: str
    customer: str
    job_number: int
    secrets_beside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnswer:
    """What the provider gets.

    Attributes:
        script: Batch script.
        logger_url: ``host:port`` of the grid's logger.
        secrets: For the job's environment. May be empty.
        log_write_token: Lets its holder write the job's log; empty if there is none to give.
    """

    script: str
    logger_url: str
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    log_write_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredScript:
    """What is stored under an id.

    Attributes:
        record: The text that its id is a hash of.
        owner: The customer whose jobs alone it is for, lower case; empty while no job names it.
    """

    record: str = field(repr=False)
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptUse:
    """A job names a script.

    Attributes:
        job_number: The contract's counter.
        batch_location_hash: Id of the script.
        customer: Whose job it is, lower case.
    """

    job_number: int
    batch_location_hash: str
    customer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """How much is stored.

    Attributes:
        scripts: All of them.
        unused: Those that no hot job names: none yet, or none any more.
        unused_bytes: How large these are.
    """

    scripts: int
    unused: int
    unused_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resealed:
    """What became of some records that an old key had sealed.

    Attributes:
        count: How many are sealed with the newest key now.
        unreadable: Ids of those that do not open, sorted; they stay as they are.
        last: The id after which to go on; None when no more records are left.
    """

    count: int
    unreadable: tuple[str, ...]
    last: str | None


def script_id(record: str) -> str:
    """Return the id of a stored record: 31 characters safe in a URL, of its SHA-256."""
    digest = hashlib.sha256(record.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:ID_LENGTH]


def use_of(job: Job) -> ScriptUse | None:
    """Return which script a job names, None if it can be none of ours: what a customer put there is
    any text.
    """
    if not is_batch_location_hash(job.batch_location_hash):
        return None
    return ScriptUse(
        job_number=job.id.number, batch_location_hash=job.batch_location_hash, customer=job.customer
    )


def is_missing(use: ScriptUse, job: Job | None) -> bool:
    """Return whether a block does not have the job that names a script: none of its number, or
    another one.
    """
    return job is None or use_of(job) != use


def refusal(job: Job, request: ScriptRequest) -> str | None:
    """Return why this job's script is not for this caller, None if it is."""
    if job.customer != request.customer:
        return "the job is not of this customer"
    if job.provider != request.provider:
        return "the job is not matched to this provider"
    return None


def is_open(job: Job, request: ScriptRequest) -> bool:
    """Return whether the job is matched and hot, and the chain has this script for it."""
    return job.state in _OPEN and job.batch_location_hash == request.batch_location_hash
