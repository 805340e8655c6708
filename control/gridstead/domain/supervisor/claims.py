# SPDX-License-Identifier: Apache-2.0
"""Decides how many of the jobs that are matched to this provider are claimed now.

A claimed job that has not started when ``startTimeout`` has passed ends as PANICKED, and its
provider gets no fee. A matched job that is not claimed goes to another provider. So a job is
claimed only if Slurm can start it soon:

- There is room for it on the free nodes, in addition to all claimed jobs that have not started.
- Or the number of claimed jobs that wait for room is below a limit. Some may wait, so that nodes
  are not idle until the next job is claimed. The limit is ``HEAD_START``, or the number of the
  grid's jobs that Slurm started in the last minute if that is higher.

The contracts claim jobs only in the order of their matches. So a job that must wait for room delays
the jobs behind it, but only until its match expires.
"""

from __future__ import annotations

from collections.abc import Iterator

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.packing import Nodes
from gridstead.domain.supervisor.attempt import ControllerSample
from gridstead.domain.supervisor.snapshot import Snapshot, SupervisorPolicy

HEAD_START = 8
RECENT_S = 60
_NO_NODES = Hardware(gpus_per_node=(), cpus_per_node=(), memory_per_node_mb=())
# The contracts of DeepSquare 1.2 do not list the jobs of a queue. Each job needs at least this.
_SMALLEST_JOB = Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=1)


def claim_count(snapshot: Snapshot, policy: SupervisorPolicy) -> int:
    """Return how many entries of the queue of matched jobs to claim now.

    Returns 0 if slurmctld did not answer. If only the free nodes are unknown, no node counts as
    free.
    """
    queue_size = min(snapshot.queues.claimable, policy.claim_limit)
    sample = snapshot.controller_sample
    if sample is None or not queue_size:
        return 0
    nodes = Nodes(snapshot.free_nodes or _NO_NODES)
    may_wait = max(HEAD_START, _recent_start_count(sample, policy))
    for resources in _not_started(snapshot, sample, policy):
        if not _place(nodes, resources):
            may_wait -= 1
    # A queue without listed jobs has only stale entries, or belongs to DeepSquare's contracts.
    queue = snapshot.claimable or (_SMALLEST_JOB,) * queue_size
    count = 0
    for resources in queue[:queue_size]:
        if not _place(nodes, resources):
            if may_wait <= 0:
                break
            may_wait -= 1
        count += 1
    return count


def _place(nodes: Nodes, resources: Resources) -> bool:
    """Place a job on the nodes. Return False if there is no room for it."""
    placement = nodes.find(resources)
    if placement is None:
        return False
    nodes.use(resources, placement)
    return True


def _not_started(
    snapshot: Snapshot, sample: ControllerSample, policy: SupervisorPolicy
) -> Iterator[Resources]:
    """Yield the resources of each job that this provider has claimed and Slurm has not started."""
    for job_key in snapshot.records:
        job = snapshot.jobs.get(job_key.job_id)
        if job is None or job.job_key != job_key or job.provider != policy.provider:
            continue
        is_claimed = job.state in {JobState.SCHEDULED, JobState.RUNNING}
        attempts = sample.by_job_key.get(job_key, ())
        if is_claimed and not any(attempt.has_started for attempt in attempts):
            yield job.resources


def _recent_start_count(sample: ControllerSample, policy: SupervisorPolicy) -> int:
    """Return how many jobs of the grid Slurm has started in the last minute."""
    since = sample.taken_at - RECENT_S
    count = 0
    for job_key, attempts in sample.by_job_key.items():
        if job_key.job_id.contract != policy.contract:
            continue
        for attempt in attempts:
            if attempt.has_started and (attempt.started_at or 0) > since:
                count += 1
    return count
