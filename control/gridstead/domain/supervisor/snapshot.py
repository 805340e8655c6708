# SPDX-License-Identifier: Apache-2.0
"""The input of a supervisor's decisions: a snapshot of the chain and Slurm, and the settings.

The snapshot is taken before any decision. reconcile.py makes the decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Block, Job, QueueSizes
from gridstead.domain.supervisor.attempt import AccountingSample, LiveSample, NodeReport
from gridstead.domain.supervisor.evidence import WaitTimes
from gridstead.domain.supervisor.journal import JournalRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of the supervisor's decisions.

    Attributes:
        chain_id: The id of the chain of the jobs.
        contract: The address of its MetaScheduler, lower case.
        provider: Our wallet, lower case.
        confirmations: How many blocks must follow a claim before an irreversible action.
        claim_limit: Maximum number of jobs in one claim.
        max_attempts: How many submissions of one job Slurm may lose or refuse before the job is
            given up.
        max_time_limit_min: The longest time limit of a job, minutes.
        plain_slack_min: None on our contracts. On DeepSquare's contracts: how many minutes a bill
            may exceed the time since the start was received. These contracts take one entry of a
            queue per claim.
        wait_times: How long to wait before a conclusion from missing jobs.
    """

    chain_id: int
    contract: str
    provider: str
    confirmations: int
    claim_limit: int = 50
    max_attempts: int = 3
    max_time_limit_min: int = 7 * 24 * 60
    plain_slack_min: int | None = None
    wait_times: WaitTimes = field(default_factory=WaitTimes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of the chain, Slurm and the journal on which the supervisor decides.

    Attributes:
        now: Unix seconds, after all other values were read.
        head: The newest block. The values of the chain are as of this block.
        jobs: Every job of the grid that a record or a live attempt names.
        queues: The sizes of our queues on the chain.
        records: The records of all open jobs of the journal, by job key.
        live: The jobs that slurmctld lists. None if it did not answer.
        accounting: slurmdbd's records of the jobs that are not alive. None if it did not answer.
        reports: The reports of nodes, newest last.
        open_keys: Keys of outbox entries that are not mined.
        unclaimed_since: Since which block an open job is continuously not claimed by us, by job
            key. Blocks that are older than the claim are not counted.
    """

    now: int
    head: Block
    jobs: Mapping[JobId, Job]
    queues: QueueSizes
    records: Mapping[JobKey, JournalRecord]
    live: LiveSample | None
    accounting: AccountingSample | None
    reports: tuple[NodeReport, ...]
    open_keys: frozenset[str]
    unclaimed_since: Mapping[JobKey, int] = field(default_factory=dict)
