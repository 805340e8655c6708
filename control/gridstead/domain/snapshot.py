# SPDX-License-Identifier: Apache-2.0
"""What a supervisor decides on: the world as it was at one moment, and what its operator wants.

A snapshot is taken before anything is decided; reconcile.py decides, and nothing here does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridstead.domain.attempt import AccountingSample, LiveSample, NodeReport
from gridstead.domain.evidence import Patience
from gridstead.domain.ids import JobKey
from gridstead.domain.job import Block, Job, QueueSizes
from gridstead.domain.journal import JournalRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator decides.

    Attributes:
        chain_id: Of the chain that the jobs come from.
        contract: Its MetaScheduler, lower case.
        provider: Our wallet, lower case.
        confirmations: Blocks on top of a claim before anything final follows from it.
        claim_limit: Jobs in one claim.
        max_attempts: Submissions of one job that Slurm may lose, or refuse, before it is given up.
        max_time_limit_min: Longest time limit given to a job, minutes.
        plain_slack_min: None on our contracts. On DeepSquare's, which take one entry of a queue per
            claim and know no start before they are told of it: by how many minutes a bill may
            exceed the time since then.
        patience: How long to wait before believing Slurm's silence.
    """

    chain_id: int
    contract: str
    provider: str
    confirmations: int
    claim_limit: int = 50
    max_attempts: int = 3
    max_time_limit_min: int = 7 * 24 * 60
    plain_slack_min: int | None = None
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything one decision is made of.

    Attributes:
        now: Unix seconds, after all of the below was asked.
        head: Newest block; all of the chain below is as of this block.
        jobs: By number: every job that a record or a live attempt names.
        queues: Our queues on chain.
        records: By job key: every open job of the journal.
        live: What slurmctld lists; None if it did not answer.
        accounting: What slurmdbd has of the jobs that are not alive; None if it did not answer.
        reports: What nodes said, newest last.
        open_keys: Keys of outbox entries that are not mined yet.
        unclaimed_since: By job key: first block of the last run of blocks at which the chain did
            not give us an open job; blocks as old as the claim do not count.
    """

    now: int
    head: Block
    jobs: Mapping[int, Job]
    queues: QueueSizes
    records: Mapping[JobKey, JournalRecord]
    live: LiveSample | None
    accounting: AccountingSample | None
    reports: tuple[NodeReport, ...]
    open_keys: frozenset[str]
    unclaimed_since: Mapping[JobKey, int] = field(default_factory=dict)
