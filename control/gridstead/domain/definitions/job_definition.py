# SPDX-License-Identifier: Apache-2.0
"""The messages between the Job Definition service and a provider, and the ids of stored scripts.

The id of a stored script is a hash of its record. The job on the chain contains this id, so the
script of a job cannot be replaced. The record contains a salt, so equal scripts have different ids.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gridstead.domain.jobs.ids import JobId, is_batch_location_hash
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import JobState

ID_LENGTH = 31

Recover: TypeAlias = Callable[[bytes, bytes], str]
"""Takes (message, signature) and returns the address, lower case, of the wallet that signed.

The message is signed as EIP-191 text. The signature is r, s and v; wallets use 0, 1, 27 or 28 for
v. Raises InvalidInput if the signature is malformed."""

_MATCHED_STATES = frozenset({JobState.META_SCHEDULED, JobState.SCHEDULED, JobState.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRequest:
    """A provider's request for the script of a job. All fields are untrusted.

    Attributes:
        batch_location_hash: The id of the script.
        challenge: The challenge from the service.
        signature: The signature of the challenge.
        provider: The provider's address, lower case.
        customer: The customer's address, lower case.
        job_id: The job.
        secrets_beside: Whether the caller accepts secrets separately from the script.
    """

    batch_location_hash: str
    challenge: bytes
    signature: bytes
    provider: str
    customer: str
    job_id: JobId
    secrets_beside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnswer:
    """The answer to a provider's request.

    Attributes:
        script: The batch script.
        logger_url: ``host:port`` of the grid's logger.
        secrets: Secrets for the environment of the job, by variable. May be empty.
        log_write_token: The write token of the job's log. Empty if the service creates no tokens.
    """

    script: str
    logger_url: str
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    log_write_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredScript:
    """A stored script.

    Attributes:
        record: The record. The id of the script is a hash of the record.
        owner: The address of the customer whose jobs may use the script, lower case. Empty if no
            owner was given at the submission and no job has named the script yet.
    """

    record: str = field(repr=False)
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptUse:
    """A job that names a script.

    Attributes:
        job_id: The job.
        batch_location_hash: The id of the script.
        customer: The customer of the job, lower case.
    """

    job_id: JobId
    batch_location_hash: str
    customer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptTotals:
    """The number and the size of the stored scripts.

    Attributes:
        scripts: Number of all scripts.
        unused: Number of the scripts that no hot (unsettled) job names.
        unused_bytes: Size of the unused scripts.
    """

    scripts: int
    unused: int
    unused_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResealResult:
    """The result of one reseal, which encrypts some records with the newest key.

    Before the reseal, these records were encrypted with an older key.

    Attributes:
        count: Number of records that were encrypted again.
        unreadable: Ids of the records that cannot be decrypted, sorted. They are unchanged.
        last: The id after which the next reseal continues. None if no records remain.
    """

    count: int
    unreadable: tuple[str, ...]
    last: str | None


def script_id(record: str) -> str:
    """Return the id of a record: the first 31 characters of its SHA-256 in URL-safe base64."""
    digest = hashlib.sha256(record.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:ID_LENGTH]


def script_use_of(job: Job) -> ScriptUse | None:
    """Return which script a job names.

    Returns None if the text in the job is not an id. A customer can set any text.
    """
    if not is_batch_location_hash(job.batch_location_hash):
        return None
    return ScriptUse(
        job_id=job.id, batch_location_hash=job.batch_location_hash, customer=job.customer
    )


def is_use_missing(use: ScriptUse, job: Job | None) -> bool:
    """Return whether a block lacks the job that names a script.

    Args:
        use: The job and the script that the job names.
        job: The job that has the same id in the block. None if the block has no such job.
    """
    return job is None or script_use_of(job) != use


def denial_reason(job: Job, request: ScriptRequest) -> str | None:
    """Return why a caller may not get the script of a job. Returns None if the caller may."""
    if job.customer != request.customer:
        return "the job belongs to another customer"
    if job.provider != request.provider:
        return "the job is not matched to this provider"
    return None


def needs_script(job: Job, request: ScriptRequest) -> bool:
    """Return whether a job is matched, is not settled, and names the requested script."""
    return job.state in _MATCHED_STATES and job.batch_location_hash == request.batch_location_hash
