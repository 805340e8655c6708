# SPDX-License-Identifier: Apache-2.0
"""What happened to each job of a campaign, from the events of the contracts and from Slurm."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from gridstead.adapters.chain.abi import artifact
from gridstead.domain.jobs.lifecycle import JobState

STAGES = ("matched", "claimed", "submitted", "started", "ended", "settled")
EVENTS = ("JobRequested", "JobMatched", "JobClaimed", "JobSettled", "JobRefunded")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """An event that ended a job: JobSettled, or JobRefunded, whose cost and fee are 0.

    Attributes:
        settled_at: The time of the block, Unix seconds.
        state: The state of the job.
        cost: What the customer paid, wei.
        fee: The grid's part of the cost, wei.
    """

    settled_at: int
    state: JobState
    cost: int = 0
    fee: int = 0


@dataclass(slots=True, kw_only=True)
class JobTrace:
    """The events of a job. Times are block times in Unix seconds, 0 if there was no such event.

    If a job was matched or claimed more than once, the last time counts.
    """

    number: int
    customer: str
    escrow: int
    requested_at: int
    matched_at: int = 0
    claimed_at: int = 0
    provider: str = ""
    price_per_min: int = 0
    ends: list[JobEnd] = field(default_factory=list)


class ChainTraces:
    """Reads the events of MetaScheduler, of all jobs that are requested from now on.

    Args:
        node: A node of the chain.
        contracts: The contracts.
        ledger: The ledger, for the times of blocks.

    Attributes:
        jobs: The trace of each job, by number.
        ended_count: How many jobs have ended.
        ended_by_customer: How many jobs of each customer have ended, by address.
    """

    def __init__(self, node, contracts, ledger):
        self._node = node
        self._address = contracts.meta_scheduler.address
        self._ledger = ledger
        self._next_block = ledger.head().number + 1
        self._events_by_topic = {}
        for name in EVENTS:
            event = artifact("MetaScheduler").events[name]
            self._events_by_topic[event.topic] = event
        self.jobs = {}
        self.ended_count = 0
        self.ended_by_customer = Counter()

    def read(self):
        """Read the events of the new blocks."""
        head = self._ledger.head().number
        if head < self._next_block:
            return
        log_filter = {
            "address": self._address,
            "fromBlock": hex(self._next_block),
            "toBlock": hex(head),
            "topics": [list(self._events_by_topic)],
        }
        block_times = {}
        for log in self._node.ask("eth_getLogs", log_filter):
            block = int(log["blockNumber"], 16)
            if block not in block_times:
                block_times[block] = self._ledger.block(block).timestamp
            event = self._events_by_topic[log["topics"][0]]
            self._add(event.name, event.decode(log), block_times[block])
        self._next_block = head + 1

    def _add(self, name, fields, time):
        number = int.from_bytes(fields["jobId"])
        if name == "JobRequested":
            self.jobs[number] = JobTrace(
                number=number,
                customer=fields["customer"].lower(),
                escrow=fields["locked"],
                requested_at=time,
            )
            return
        job = self.jobs.get(number)
        if job is None:
            return  # it was requested before
        if name == "JobMatched":
            job.matched_at = time
            job.provider = fields["provider"].lower()
            job.price_per_min = fields["pricePerMinute"]
        elif name == "JobClaimed":
            job.claimed_at = time
        else:
            if not job.ends:
                self.ended_count += 1
                self.ended_by_customer[job.customer] += 1
            job.ends.append(_job_end(fields, time))


def _job_end(fields, time):
    return JobEnd(
        settled_at=time,
        state=JobState(fields["status"]),
        cost=fields.get("cost", 0),
        fee=fields.get("fee", 0),
    )


def stage_seconds(trace, run):
    """Return how long each stage of a settled job took, in the order of ``STAGES``."""
    times = (
        trace.requested_at,
        trace.matched_at,
        trace.claimed_at,
        run.submitted_at,
        run.started_at,
        run.ended_at,
        trace.ends[-1].settled_at,
    )
    return tuple(later - earlier for earlier, later in itertools.pairwise(times))
