# SPDX-License-Identifier: Apache-2.0
"""The input of a supervisor's decisions: a snapshot of the chain and Slurm, and the settings.

The supervisor takes the snapshot first. Then ``reconcile.py`` makes the decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Block, Hardware, Job, QueueSizes
from gridstead.domain.supervisor.attempt import (
    AccountingSample,
    Attempt,
    ControllerSample,
    NodeReport,
)
from gridstead.domain.supervisor.evidence import WaitTimes
from gridstead.domain.supervisor.journal import JournalRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorPolicy:
    """The settings of the supervisor's decisions.

    Attributes:
        chain_id: The id of the chain of the jobs.
        contract: The address of the MetaScheduler, lower case.
        provider: The address of this provider's wallet, lower case.
        confirmations: How many blocks must follow a claim or a request to cancel before an
            irreversible action.
        claim_limit: Maximum number of jobs in one claim, see ``claims.py``.
        max_attempts: How many submissions of one job Slurm may lose or refuse. After that many, the
            supervisor gives the job up.
        max_time_limit_min: The longest time limit of a job, minutes.
        deepsquare_slack_min: How many minutes a bill may exceed the time since the contracts
            received the start. Set only for the contracts of DeepSquare 1.2, from which Gridstead's
            contracts are derived. None for Gridstead's contracts. If it is set, a claim takes only
            one entry of a queue.
        hook_timeout_s: The maximum run time of the site's pre-hooks, seconds. 0 if there are none.
        wait_times: How long the supervisor waits before it draws a conclusion.
    """

    chain_id: int
    contract: str
    provider: str
    confirmations: int
    claim_limit: int = 50
    max_attempts: int = 3
    max_time_limit_min: int = 7 * 24 * 60
    deepsquare_slack_min: int | None = None
    hook_timeout_s: int = 0
    wait_times: WaitTimes = field(default_factory=WaitTimes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of the chain, Slurm and the journal on which the supervisor decides.

    Attributes:
        now: The time after all other values were read, Unix seconds.
        head: The newest block. All values of the chain are read at this block.
        jobs: The jobs on the chain that a record or a live attempt refers to, by job id.
        queues: The sizes of this provider's queues on the chain.
        records: The journal's records of all open jobs, by job key.
        controller_sample: The jobs that slurmctld lists. None if slurmctld did not answer.
        accounting_sample: slurmdbd's records of open jobs, at least of those that slurmctld does
            not list as alive. None if slurmdbd did not answer.
        reports: The reports of nodes, newest last.
        open_outbox_keys: The keys of the open outbox entries, except mined claims.
        unclaimed_since_block: The number of the first block at which the supervisor saw that the
            provider's claim of an open job is missing, by job key. Blocks before the claim do not
            count.
        confirmed_at: The time of the block that is ``confirmations`` blocks before the newest
            block, Unix seconds. Earlier requests to cancel are confirmed. None if there is no such
            block.
        claim_blocks: The block numbers of this provider's claims of open jobs, by job id, as far as
            the supervisor has read them since its start.
        submitting: The jobs whose submission had not ended before the first value was read. The
            other values may be from before or after the end of their submissions.
        claimable: The resources of the first jobs in the queue of matched jobs, in order. Empty if
            the contracts do not list the queue.
        free_nodes: The free resources of the nodes that accept jobs. None if they were not read.
    """

    now: int
    head: Block
    jobs: Mapping[JobId, Job]
    queues: QueueSizes
    records: Mapping[JobKey, JournalRecord]
    controller_sample: ControllerSample | None
    accounting_sample: AccountingSample | None
    reports: tuple[NodeReport, ...]
    open_outbox_keys: frozenset[str]
    unclaimed_since_block: Mapping[JobKey, int] = field(default_factory=dict)
    confirmed_at: int | None = None
    claim_blocks: Mapping[JobId, int] = field(default_factory=dict)
    submitting: frozenset[JobKey] = frozenset()
    claimable: tuple[Resources, ...] = ()
    free_nodes: Hardware | None = None
    _reports_by_id: Mapping[tuple[int, int | None], Sequence[NodeReport]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        reports_by_id: dict[tuple[int, int | None], list[NodeReport]] = {}
        for report in self.reports:
            reports_by_id.setdefault((report.slurm_job_id, report.uid), []).append(report)
        object.__setattr__(self, "_reports_by_id", reports_by_id)

    def is_request_confirmed(self, job: Job) -> bool:
        """Return whether the request to cancel a job has enough confirmations.

        The contract stores only the time of the request. Blocks may have equal times, so the time
        must be before that of the confirmed block.
        """
        if self.confirmed_at is None or not job.cancel_requested:
            return False
        return job.cancel_requested_at < self.confirmed_at

    def live_attempts(self, job_key: JobKey) -> list[Attempt]:
        """Return the live Slurm jobs with a job key. Empty if slurmctld did not answer."""
        if self.controller_sample is None:
            return []
        attempts = self.controller_sample.by_job_key.get(job_key, ())
        return [attempt for attempt in attempts if attempt.is_alive]

    def reports_about(self, attempt: Attempt) -> Sequence[NodeReport]:
        """Return the reports with the Slurm job id and the uid of an attempt, newest last.

        Slurm may have assigned the id again, so a report can be about an earlier Slurm job.
        """
        return self._reports_by_id.get((attempt.slurm_job_id, attempt.uid), ())
