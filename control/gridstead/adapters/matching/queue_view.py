# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler's queue view for a customer: why a job is not matched yet.

The view is optional; clients work without it.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

from gridstead.domain.jobs.ids import JobId

TIMEOUT_S = 3


def pending_reason(url: str, job_id: JobId, *, ca: Path | None) -> str | None:
    """Return why a pending job has no provider, None if the view does not answer or lacks the job.

    Args:
        url: ``https://host:port``.
        job_id: The job.
        ca: PEM file of a CA; None for the system's CAs.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
        answer = httpx.get(
            f"{url.rstrip('/')}/pending", verify=context, timeout=TIMEOUT_S, trust_env=False
        ).json()
    except (httpx.HTTPError, OSError, ValueError):
        return None
    reason = answer.get(job_id.slurm_name) if isinstance(answer, dict) else None
    return str(reason) if reason is not None else None
