# SPDX-License-Identifier: Apache-2.0
"""A client of the meta-scheduler's queue view.

It shows why a job is not matched yet, and which reserved keys the conditions of a job may have.

The queue view is optional. All commands except `gridstead job why` work without it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import httpx
from pydantic import TypeAdapter, ValidationError

from gridstead.adapters.matching.pending_job import PendingJob
from gridstead.domain.jobs.ids import JobId
from gridstead.errors import QueueViewUnavailable, UnexpectedOutput

TIMEOUT_S = 3
_KEYS = TypeAdapter(dict[str, list[str]])


def pending_reason(url: str, job_id: JobId, *, ca: Path | None) -> str | None:
    """Return why a pending job has no provider.

    Returns None if the queue view does not answer or does not contain the job.

    Args:
        url: ``https://host:port``.
        job_id: The id of the job.
        ca: The PEM file of a CA. None for the CAs of the system.
    """
    try:
        answer = _get(url, "/pending", ca=ca).json()
    except (httpx.HTTPError, OSError, ValueError):
        return None
    if not isinstance(answer, dict):
        return None
    reason = answer.get(job_id.slurm_job_name)
    return None if reason is None else str(reason)


def pending_job(url: str, job_id: JobId, *, ca: Path | None) -> PendingJob | None:
    """Return why a pending job waits, with figures.

    Returns None if the queue view does not know a pending job with this id.

    Args:
        url: ``https://host:port``.
        job_id: The id of the job.
        ca: The PEM file of a CA. None for the CAs of the system.

    Raises:
        QueueViewUnavailable: If the queue view does not answer, or answers with an error.
        UnexpectedOutput: If the answer does not follow the schema.
    """
    path = f"/pending/{job_id.slurm_job_name}"
    try:
        answer = _get(url, path, ca=ca)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        answer.raise_for_status()
    except (httpx.HTTPError, OSError) as error:
        raise QueueViewUnavailable(
            f"could not read why job {job_id} waits", detail=f"{url}{path}: {error}"
        ) from error
    try:
        return PendingJob.model_validate_json(answer.content)
    except ValidationError as error:
        raise UnexpectedOutput(f"{url}{path}", answer.text) from error


def understood_keys(url: str, *, ca: Path | None) -> Mapping[str, list[str]]:
    """Return the reserved keys that conditions of a job may have, each with its operators.

    Returns an empty mapping if the meta-scheduler is older than the reserved keys.

    Args:
        url: ``https://host:port``.
        ca: The PEM file of a CA. None for the CAs of the system.

    Raises:
        QueueViewUnavailable: If the queue view does not answer, or answers with an error.
        UnexpectedOutput: If the answer has another form.
    """
    path = "/keys"
    try:
        answer = _get(url, path, ca=ca)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return {}
        answer.raise_for_status()
    except (httpx.HTTPError, OSError) as error:
        raise QueueViewUnavailable(
            "could not read which conditions the grid understands", detail=f"{url}{path}: {error}"
        ) from error
    try:
        return _KEYS.validate_json(answer.content)
    except ValidationError as error:
        raise UnexpectedOutput(f"{url}{path}", answer.text) from error


def _get(url: str, path: str, *, ca: Path | None) -> httpx.Response:
    tls_context = ssl.create_default_context(cafile=ca)
    return httpx.get(
        f"{url.rstrip('/')}{path}", verify=tls_context, timeout=TIMEOUT_S, trust_env=False
    )
