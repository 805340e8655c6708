# SPDX-License-Identifier: Apache-2.0
"""Builders of domain values. Every field has a default. A test sets only the fields it needs.

An attempt is a Slurm job that the supervisor submitted for a job of the grid. A record is the state
of a job, computed from the job's entries in the supervisor's journal.
"""

from dataclasses import replace

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Job, QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Cancel, Note, Put
from gridstead.domain.supervisor.attempt import AccountingSample, Attempt, ControllerSample
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry, JournalRecords
from gridstead.domain.supervisor.reconcile import plan_jobs
from gridstead.domain.supervisor.snapshot import Snapshot, SupervisorPolicy

CREDIT = 10**18
CONTRACT = "0x" + "c0" * 20
PROVIDER = "0x" + "11" * 20
OTHER_ADDRESS = "0x" + "22" * 20
CUSTOMER = "0x" + "33" * 20
CLAIM_BLOCK = 100
T0 = 1_000_000  # The Unix time at which jobs are claimed.
CONFIRMATIONS = 6

POLICY = SupervisorPolicy(
    chain_id=179188, contract=CONTRACT, provider=PROVIDER, confirmations=CONFIRMATIONS
)


def job_id(number=7):
    return JobId(chain_id=179188, contract=CONTRACT, number=number)


def job(state=JobState.SCHEDULED, *, number=7, **changes):
    """Return a job of PROVIDER that was claimed in CLAIM_BLOCK."""
    base = Job(
        id=job_id(number),
        state=state,
        customer=CUSTOMER,
        provider=PROVIDER,
        resources=Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=100),
        batch_location_hash="hash7",
        escrow=100 * CREDIT,
        price_per_min=CREDIT,
        submitted_at=T0 - 5,
        started_at=T0 + 2 if state is JobState.RUNNING else 0,
        state_block=CLAIM_BLOCK,
    )
    return replace(base, **changes)


def attempt(of_job, state="RUNNING", *, slurm_job_id=42, **changes):
    """Return an attempt of a job, submitted at T0 + 1.

    The attempt started at T0 + 2 if it is not pending, and ended at T0 + 32 if it has ended.
    """
    base = Attempt(
        slurm_job_id=slurm_job_id,
        name=of_job.id.slurm_job_name,
        job_key=of_job.job_key,
        user=of_job.customer,
        state=state,
        submitted_at=T0 + 1,
        started_at=None if state == "PENDING" else T0 + 2,
        ended_at=None if state in {"PENDING", "RUNNING"} else T0 + 32,
        uid=200_001,
    )
    return replace(base, **changes)


def journal_record(of_job, *entries):
    """Return the record of a job after a CLAIMED entry at T0 and these further entries.

    An entry is a tuple (kind, occurred_at, slurm_job_id, reason). The last two can be omitted. No
    entry may be a CLOSED entry, because a closed job has no record.
    """
    job_key = of_job.job_key
    records = JournalRecords()
    records.extend([JournalEntry(job_key=job_key, kind=EntryKind.CLAIMED, occurred_at=T0)])
    for values in entries:
        fields = dict(zip(("kind", "occurred_at", "slurm_job_id", "reason"), values, strict=False))
        records.extend([JournalEntry(job_key=job_key, **fields)])
    return records.by_job_key[job_key]


def submitted_record(of_job, *, occurred_at=T0 + 1, slurm_job_id=42):
    """Return the record of a job that Slurm accepted."""
    return journal_record(
        of_job,
        (EntryKind.SUBMIT_INTENDED, occurred_at),
        (EntryKind.SUBMITTED, occurred_at, slurm_job_id),
    )


def controller_sample(*attempts, taken_at=T0 + 60):
    return ControllerSample(taken_at=taken_at, attempts=attempts)


def accounting_sample(*attempts, taken_at=T0 + 60, is_complete=True):
    return AccountingSample(taken_at=taken_at, is_complete=is_complete, attempts=attempts)


def snapshot(jobs=(), records=(), *, now=T0 + 60, height=CLAIM_BLOCK + CONFIRMATIONS, **changes):
    """Return a snapshot at T0 + 60. Slurm has no jobs.

    All claims are confirmed, and all requests to cancel that were made before T0 + 60.
    """
    base = Snapshot(
        now=now,
        head=Block(number=height, hash="0x" + "ee" * 32, timestamp=now),
        jobs={job.id: job for job in jobs},
        queues=QueueSizes(claimable=0, cancelling=0, top_up=0),
        records={record.job_key: record for record in records},
        controller_sample=controller_sample(),
        accounting_sample=accounting_sample(),
        reports=(),
        open_outbox_keys=frozenset(),
        confirmed_at=now,
    )
    return replace(base, **changes)


def planned_actions(jobs=(), records=(), *, policy=POLICY, **fields):
    """Return the actions that the supervisor plans for a snapshot with these fields."""
    return plan_jobs(snapshot(jobs, records, **fields), policy)


def calls_of(actions):
    """Return the contract calls that the actions put into the outbox."""
    return [action.call for action in actions if isinstance(action, Put)]


def journal_entry_kinds(actions):
    """Return the kinds of the journal entries that the actions write."""
    return [action.entry.kind for action in actions if isinstance(action, Note)]


def cancelled_ids(actions):
    """Return the ids of the Slurm jobs that the actions cancel."""
    return [action.slurm_job_id for action in actions if isinstance(action, Cancel)]
