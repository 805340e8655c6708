# SPDX-License-Identifier: Apache-2.0
"""The models of contracts JobRepository and ProviderJobQueues: job records and queues."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from tests.contracts.ledger.model import ContractModel, Refused
from tests.contracts.ledger.state import NOBODY, Job, Queue, QueueKind

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.lifecycle import COLD, JobState, is_legal

REPOSITORY = "JobRepository"
MAX_ESCROW = 2**128 - 1
MAX_SKIPPED = 64
MAX_STORAGE_TYPE = 4
MAX_HASH_BYTES = 128
MAX_LABELS = 16
MAX_LABEL_BYTES = 64


def to_resources(definition: tuple) -> Resources:
    """Return the resources in a definition, which determine the price."""
    gpus, memory, cpus, tasks = definition[:4]
    return Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory)


def is_valid(definition: tuple) -> bool:
    """Return whether the resources and the texts of a definition are within the bounds."""
    *_, script, storage_type, uses, affinity = definition
    labels = [*uses, *(label for label, _ in affinity)]
    texts = itertools.chain.from_iterable(labels)
    return (
        to_resources(definition).is_valid
        and storage_type <= MAX_STORAGE_TYPE
        and len(script.encode()) <= MAX_HASH_BYTES
        and len(labels) <= MAX_LABELS
        and all(len(text.encode()) <= MAX_LABEL_BYTES for text in texts)
    )


def create(
    model: ContractModel, definition: tuple, escrow: int, name: bytes, *, delegates: bool
) -> Job:
    """Store a job of the caller."""
    _require_storable(escrow)
    job = Job(
        id=(len(model.state.jobs) + 1).to_bytes(32),
        customer=model.sender,
        definition=definition,
        resources=to_resources(definition),
        name=name,
        escrow=escrow,
        delegates=delegates,
        submitted_at=model.now,
        cancel_requested_at=model.now,
        state_block=model.block,
    )
    model.state.jobs[job.id] = job
    model.emit(REPOSITORY, "JobCreated", job.id)
    return job


def find(model: ContractModel, job_id: bytes) -> Job:
    """Return a job. An unknown id is refused."""
    if job_id not in model.state.jobs:
        raise Refused("InvalidJob")
    return model.state.jobs[job_id]


def change(model: ContractModel, job: Job, **changes: object) -> None:
    """Change fields of a job, except its state."""
    model.state.jobs[job.id] = replace(find(model, job.id), **changes)


def transition(model: ContractModel, job: Job, new_state: JobState, **changes: object) -> None:
    """Change the state of a job. An illegal transition is refused."""
    if new_state is job.state:
        raise Refused("SameStatusError")
    if job.state in COLD:
        raise Refused("JobHotStatusOnly", int(job.state))
    if not is_legal(job.state, new_state):
        raise Refused("InvalidTransition", int(job.state), int(new_state))
    change(model, job, state=new_state, state_block=model.block, **changes)
    model.emit(REPOSITORY, "JobTransitionEvent", job.id, job.state, new_state)


def unmatch(model: ContractModel, job: Job) -> None:
    """Set the state of a job to PENDING again.

    The pending top-up is cleared, because the next claim emits the minutes of the whole escrow.
    """
    transition(
        model, job, JobState.PENDING, provider=NOBODY, price=0, claimed_at=0, pending_top_up=0
    )


def report(model: ContractModel, job: Job, exit_code: int, error: str) -> None:
    """Store a provider's report about a job. An empty error does not replace the stored error."""
    change(model, job, exit_code=exit_code, error=error or job.error)


def end(
    model: ContractModel,
    job: Job,
    new_state: JobState,
    *,
    cost: int = 0,
    exit_code: int = 0,
    error: str = "",
) -> None:
    """End a job."""
    transition(
        model,
        job,
        new_state,
        ended_at=model.now,
        final_cost=cost,
        exit_code=exit_code,
        error=error or job.error,
    )


def top_up(model: ContractModel, job: Job, amount: int) -> None:
    """Add an amount to the escrow of a job. If no top-up is pending yet, append a queue entry."""
    change(
        model,
        job,
        escrow=_require_storable(job.escrow + _require_storable(amount)),
        pending_top_up=job.pending_top_up + amount,
    )
    if not job.pending_top_up:
        push(model, QueueKind.TOP_UP, job)


def push(model: ContractModel, kind: QueueKind, job: Job) -> None:
    """Append a job to a queue of its provider."""
    queue = model.state.queues.get((kind, job.provider), Queue())
    model.state.queues[kind, job.provider] = replace(queue, entries=(*queue.entries, job.id))


def pop(model: ContractModel, kind: QueueKind) -> tuple[Job | None, bool]:
    """Remove the caller's oldest live entry, and at most MAX_SKIPPED stale entries before it.

    Returns:
        The job of the live entry or None, and whether the queue is now empty.
    """
    queue = model.state.queues.get((kind, model.sender), Queue())
    job, removed = None, queue.removed
    for job_id in queue.waiting[:MAX_SKIPPED]:
        removed += 1
        if is_live(model, kind, job_id, model.sender):
            job = find(model, job_id)
            break
    model.state.queues[kind, model.sender] = replace(queue, removed=removed)
    return job, removed == len(queue.entries)


def is_live(model: ContractModel, kind: QueueKind, job_id: bytes, provider: str) -> bool:
    """Return whether an entry is live: the job has this provider and is in a state of the queue."""
    job = find(model, job_id)
    return job.provider == provider and _IS_LIVE_IN_QUEUE[kind](job)


def _is_cancelling(job: Job) -> bool:
    is_ended_by_others = job.state in (JobState.CANCELLED, JobState.PANICKED)
    is_cancel_requested = job.state not in COLD and job.cancel_requested
    return is_ended_by_others or is_cancel_requested


_IS_LIVE_IN_QUEUE: dict[QueueKind, Callable[[Job], bool]] = {
    QueueKind.CLAIMABLE: lambda job: job.state is JobState.META_SCHEDULED,
    QueueKind.CANCELLING: _is_cancelling,
    QueueKind.TOP_UP: lambda job: job.pending_top_up > 0 and job.state not in COLD,
}


def _require_storable(amount: int) -> int:
    if amount > MAX_ESCROW:
        raise Refused("InvalidJob")
    return amount
