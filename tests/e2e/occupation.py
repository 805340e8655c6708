# SPDX-License-Identifier: Apache-2.0
"""How many jobs each provider had at which time, from the events of the contracts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.logs import read_logs

ENDS = ("JobUnmatched", "JobSettled", "JobRefunded")  # a job leaves its provider


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEvent:
    """A job was matched to a provider, or left its provider.

    Attributes:
        name: JobMatched, JobUnmatched, JobSettled or JobRefunded.
        number: The number of the job.
        provider: The address of the provider, lower case. Empty if a job is refunded.
    """

    name: str
    number: int
    provider: str


def provider_events(chain, *, first_block):
    """Return the events of all jobs from a block on, in the order of the chain.

    Args:
        chain: An open chain (``ChainAccess``).
        first_block: The number of the block.
    """
    event_types = artifact("MetaScheduler").events
    types_by_topic = {event_types[name].topic: event_types[name] for name in ("JobMatched", *ENDS)}
    address = chain.contracts.meta_scheduler.address
    log_filter = {"address": address, "topics": [sorted(types_by_topic)]}
    events = []
    for log in read_logs(chain.node, log_filter, first=first_block, end=chain.ledger.head()):
        event_type = types_by_topic[log["topics"][0]]
        fields = event_type.decode(log)
        event = ProviderEvent(
            name=event_type.name,
            number=int.from_bytes(fields["jobId"]),
            provider=fields.get("provider", "").lower(),
        )
        events.append(event)
    return events


def most_cpus_at_once(events, cpus):
    """Return how many CPUs of each provider were matched at most at one time, by address.

    Args:
        events: The events.
        cpus: The CPUs of each job, by number.
    """
    used, most = Counter(), Counter()
    providers = {}  # of the matched jobs, by number
    for event in events:
        if event.name == "JobMatched":
            assert event.number not in providers, f"job {event.number} is matched twice"
            providers[event.number] = event.provider
            used[event.provider] += cpus[event.number]
            most[event.provider] = max(most[event.provider], used[event.provider])
        elif event.number in providers:
            used[providers.pop(event.number)] -= cpus[event.number]
    return most
