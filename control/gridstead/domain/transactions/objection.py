# SPDX-License-Identifier: Apache-2.0
"""Decides whether a call may be sent in the current state of its job.

An objection is the reason why a call must not be sent. A job is hot until it is settled.
"""

from __future__ import annotations

from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import COLD, JobState, is_legal
from gridstead.domain.transactions.calls import Call, Expire, Match, Refuse, Settle, job_key_of


def objection(call: Call, job: Job | None, *, wallet: str) -> str:
    """Return why a call must not be sent to the chain, or an empty text if the call may be sent.

    Args:
        call: A call that is in no block.
        job: The job with the call's job id, as of the newest block. None if the chain has no such
            job.
        wallet: The address of the sender, lower case.
    """
    job_key = job_key_of(call)
    if job_key is None:
        return ""
    if job is None:
        return "the chain has no such job"
    if job.job_key != job_key:
        return "the job number belongs to another job"
    if isinstance(call, Match):
        return "" if job.state is JobState.PENDING else f"the job is {job.state.name}"
    if isinstance(call, Expire):
        return _objection_to_expiry(call, job)
    if job.provider != wallet:
        return "the job belongs to another provider"
    if job.state in COLD:
        return f"the job is {job.state.name}"
    return _objection_to_provider_call(call, job)


def _objection_to_expiry(call: Expire, job: Job) -> str:
    if (job.state, job.state_block) != (call.state, call.state_block):
        return f"the job has changed its state to {job.state.name}"
    return ""


def _objection_to_provider_call(call: Call, job: Job) -> str:
    """Return the objection to a provider's call about a hot job that is matched to the provider."""
    if isinstance(call, Refuse) and job.state is JobState.RUNNING:
        return f"the job is {job.state.name}"
    if isinstance(call, Settle) and _would_bill_nothing(call, job):
        return "the job has not started on chain"
    return ""


def _would_bill_nothing(call: Settle, job: Job) -> bool:
    """Return whether the contract would accept the settlement but bill nothing.

    This happens if a reorg removed the start of the job.
    """
    is_unstarted = job.state is JobState.SCHEDULED
    return call.seconds > 0 and is_unstarted and is_legal(job.state, call.state)
