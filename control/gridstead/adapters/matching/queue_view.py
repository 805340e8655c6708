# SPDX-License-Identifier: Apache-2.0
"""A client of the meta-scheduler's queue view, which says why a job is not matched yet.

The queue view is optional. The command-line client works without it.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

from gridstead.domain.jobs.ids import JobId

TIMEOUT_S = 3


def pending_reason(url: str, job_id: JobId, *, ca: Path | None) -> str | None:
    """Return why a pending job has no provider.

    Returns None if the queue view does not answer or does not contain the job.

    Args:
        url: ``https://host:port``.
        job_id: The id of the job.
        ca: The PEM file of a CA. None for the CAs of the system.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
        answer = httpx.get(
            f"{url.rstrip('/')}/pending", verify=context, timeout=TIMEOUT_S, trust_env=False
        ).json()
    except (httpx.HTTPError, OSError, ValueError):
        return None
    reason = answer.get(job_id.slurm_job_name) if isinstance(answer, dict) else None
    return reason if reason is None else str(reason)
