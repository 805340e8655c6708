# SPDX-License-Identifier: Apache-2.0
"""JobRepository and ProviderJobQueues: the jobs, the one way to move them, and who waits to be told
what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.contracts.ledger.model import ContractModel, Refused
from tests.contracts.ledger.state import NOBODY, Job, Kind, Queue

from gridstead.domain.billing import Resources
from gridstead.domain.lifecycle import COLD, JobState, is_legal

REPOSITORY = "JobRepository"
MAX_LOCK = 2**128 - 1
MAX_SKIPPED = 64
MAX_STORAGE_TYPE = 4
MAX_HASH_BYTES = 128
MAX_LABELS = 16
MAX_LABEL_BYTES = 64


def to_resources(definition: tuple) -> Resources:
    """Return what of a definition the price depends on."""
    gpus, memory, cpus, tasks = definition[:4]
    return Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory)


def is_valid(definition: tuple) -> bool:
    """Return whether a definition is taken: something is asked for, no more and in no more words
    than the bounds.
    """
    *_, script, storage_type, uses, affinity = definition
    labels = [*uses, *(label for label, _ in affinity)]
    return (
        to_resources(definition).is_valid
        and storage_type <= MAX_STORAGE_TYPE
        and len(script.encode()) <= MAX_HASH_BYTES
        and len(labels) <= MAX_LABELS
        and all(len(text.encode()) <= MAX_LABEL_BYTES for label in labels for text in label)
    )


def create(
    model: ContractModel, definition: tuple, lock: int, name: bytes, *, delegates: bool
) -> Job:
    """Store a job of the caller."""
    _fit(lock)
    job = Job(
        id=(len(model.state.jobs) + 1).to_bytes(32),
        customer=model.sender,
        definition=definition,
        resources=to_resources(definition),
        name=name,
        lock=lock,
        delegates=delegates,
        submitted_at=model.now,
        cancel_requested_at=model.now,
        state_block=model.block,
    )
    model.state.jobs[job.id] = job
    model.emit(REPOSITORY, "JobCreated", job.id)
    return job


def find(model: ContractModel, job_id: bytes) -> Job:
    """Return a job."""
    if job_id not in model.state.jobs:
        raise Refused("InvalidJob")
    return model.state.jobs[job_id]


def change(model: ContractModel, job: Job, **changes: object) -> None:
    """Change what is known of a job, but for its state."""
    model.state.jobs[job.id] = replace(find(model, job.id), **changes)


def move(model: ContractModel, job: Job, to: JobState, **changes: object) -> None:
    """Move a job to another state, if the table says so."""
    if to is job.state:
        raise Refused("SameStatusError")
    if job.state in COLD:
        raise Refused("JobHotStatusOnly", int(job.state))
    if not is_legal(job.state, to):
        raise Refused("InvalidTransition", int(job.state), int(to))
    change(model, job, state=to, state_block=model.block, **changes)
    model.emit(REPOSITORY, "JobTransitionEvent", job.id, job.state, to)


def unmatch(model: ContractModel, job: Job) -> None:
    """Take a job from its provider; the next claim tells the whole lock, so no top-up waits any
    more.
    """
    move(model, job, JobState.PENDING, provider=NOBODY, price=0, claimed_at=0, pending_top_up=0)


def report(model: ContractModel, job: Job, exit_code: int, error: str) -> None:
    """Keep what a provider says of a job; no error leaves the one that is there."""
    change(model, job, exit_code=exit_code, error=error or job.error)


def end(
    model: ContractModel,
    job: Job,
    to: JobState,
    *,
    cost: int = 0,
    exit_code: int = 0,
    error: str = "",
) -> None:
    """End a job."""
    move(
        model,
        job,
        to,
        ended_at=model.now,
        final_cost=cost,
        exit_code=exit_code,
        error=error or job.error,
    )


def top_up(model: ContractModel, job: Job, amount: int) -> None:
    """Add to the lock, and tell the provider unless it has something to be told already."""
    change(
        model, job, lock=_fit(job.lock + _fit(amount)), pending_top_up=job.pending_top_up + amount
    )
    if not job.pending_top_up:
        push(model, Kind.TOP_UP, job)


def push(model: ContractModel, kind: Kind, job: Job) -> None:
    """Put a job into a queue of its provider."""
    queue = model.state.queues.get((kind, job.provider), Queue())
    model.state.queues[kind, job.provider] = replace(queue, entries=(*queue.entries, job.id))


def pop(model: ContractModel, kind: Kind) -> tuple[Job | None, bool]:
    """Take the caller's oldest entry that still means something; stale ones are dropped, a bounded
    number at a time.

    Returns:
        Its job, None if none was found; whether the queue is empty now.
    """
    queue = model.state.queues.get((kind, model.sender), Queue())
    found, taken = None, queue.taken
    for job_id in queue.waiting[:MAX_SKIPPED]:
        taken += 1
        if is_live(model, kind, job_id, model.sender):
            found = find(model, job_id)
            break
    model.state.queues[kind, model.sender] = replace(queue, taken=taken)
    return found, taken == len(queue.entries)


def is_live(model: ContractModel, kind: Kind, job_id: bytes, provider: str) -> bool:
    """Return whether an entry still means something to the provider."""
    job = find(model, job_id)
    return job.provider == provider and _LIVE[kind](job)


def _is_cancelling(job: Job) -> bool:
    ended_by_others = job.state in (JobState.CANCELLED, JobState.PANICKED)
    return ended_by_others or (job.state is JobState.RUNNING and job.cancel_requested)


_LIVE: dict[Kind, Callable[[Job], bool]] = {
    Kind.CLAIMABLE: lambda job: job.state is JobState.META_SCHEDULED,
    Kind.CANCELLING: _is_cancelling,
    Kind.TOP_UP: lambda job: job.pending_top_up > 0 and job.state not in COLD,
}


def _fit(amount: int) -> int:
    if amount > MAX_LOCK:
        raise Refused("InvalidJob")
    return amount
