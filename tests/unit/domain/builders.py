# SPDX-License-Identifier: Apache-2.0
"""Functions that build values for tests.

Every field has a default. A test sets only the fields that matter to it.
"""

from dataclasses import replace

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Job, QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Cancel, Note, Put
from gridstead.domain.supervisor.attempt import AccountingSample, Attempt, LiveSample
from gridstead.domain.supervisor.journal import (
    EntryKind,
    JournalEntry,
    JournalRecord,
    JournalRecords,
)
from gridstead.domain.supervisor.snapshot import Rules, Snapshot

CREDIT = 10**18
CONTRACT = "0x" + "c0" * 20
US = "0x" + "11" * 20  # the provider whose supervisor is tested
OTHER = "0x" + "22" * 20  # another provider
CUSTOMER = "0x" + "33" * 20
CLAIM_BLOCK = 100
T0 = 1_000_000  # the time of the claim, Unix seconds
CONFIRMATIONS = 6

RULES = Rules(chain_id=179188, contract=CONTRACT, provider=US, confirmations=CONFIRMATIONS)


def job_id(number=7):
    return JobId(chain_id=179188, contract=CONTRACT, number=number)


def job(state=JobState.SCHEDULED, *, number=7, stored="hash7", **changes):
    base = Job(
        id=job_id(number),
        state=state,
        customer=CUSTOMER,
        provider=US,
        resources=Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=100),
        batch_location_hash=stored,
        escrow=100 * CREDIT,
        price_per_min=CREDIT,
        submitted_at=T0 - 5,
        started_at=T0 + 2 if state is JobState.RUNNING else 0,
        state_block=CLAIM_BLOCK,
    )
    return replace(base, **changes)


def attempt(our_job, state="RUNNING", *, slurm_job_id=42, **changes):
    base = Attempt(
        slurm_job_id=slurm_job_id,
        name=our_job.id.slurm_name,
        job_key=our_job.job_key,
        user=our_job.customer,
        state=state,
        submitted_at=T0 + 1,
        started_at=None if state == "PENDING" else T0 + 2,
        ended_at=None if state in {"PENDING", "RUNNING"} else T0 + 32,
        uid=200_001,
    )
    return replace(base, **changes)


def record(our_job, *entries):
    """Return the journal record of a job with a CLAIMED entry and these further entries.

    An entry is (kind, occurred_at[, slurm_job_id[, reason]]).
    """
    job_key = our_job.job_key
    records = JournalRecords()
    records.extend([JournalEntry(job_key=job_key, kind=EntryKind.CLAIMED, occurred_at=T0)])
    field_names = ("kind", "occurred_at", "slurm_job_id", "reason")
    for values in entries:
        fields = dict(zip(field_names, values, strict=False))
        records.extend([JournalEntry(job_key=job_key, **fields)])
    return records.by_job_key.get(job_key, JournalRecord(job_key=job_key))


def submitted(our_job, *, occurred_at=T0 + 1, slurm_job_id=42):
    """Return the journal record of a job that was submitted to Slurm."""
    return record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, occurred_at),
        (EntryKind.SUBMITTED, occurred_at, slurm_job_id),
    )


def live(*attempts, taken_at=T0 + 60):
    return LiveSample(taken_at=taken_at, attempts=attempts)


def accounting(*attempts, taken_at=T0 + 60, complete=True):
    return AccountingSample(taken_at=taken_at, complete=complete, attempts=attempts)


def snapshot(jobs=(), records=(), *, now=T0 + 60, height=CLAIM_BLOCK + CONFIRMATIONS, **changes):
    """Return a snapshot. ``height`` is the number of the newest block."""
    base = Snapshot(
        now=now,
        head=Block(number=height, hash="0x" + "ee" * 32, timestamp=now),
        jobs={job.id: job for job in jobs},
        queues=QueueSizes(claimable=0, cancelling=0, top_up=0),
        records={record.job_key: record for record in records},
        live=live(),
        accounting=accounting(),
        reports=(),
        open_keys=frozenset(),
    )
    return replace(base, **changes)


def calls(actions):
    """Return the calls that the actions put into the outbox."""
    return [action.call for action in actions if isinstance(action, Put)]


def notes(actions):
    """Return the kinds of the journal entries that the actions write."""
    return [action.entry.kind for action in actions if isinstance(action, Note)]


def cancelled(actions):
    """Return the Slurm job ids that the actions cancel."""
    return [action.slurm_job_id for action in actions if isinstance(action, Cancel)]
