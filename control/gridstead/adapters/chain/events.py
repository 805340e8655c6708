# SPDX-License-Identifier: Apache-2.0
"""The contracts' events as domain events. Only events of the published ABI are read, so both generations answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridstead.adapters.chain.abi import EventType, artifact
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.records import to_address
from gridstead.domain.events import Event, EventKind

# Our event, and the names that its fields have in the contracts' event.
_FIELDS: dict[tuple[str, str], tuple[EventKind, dict[str, str]]] = {
    ("MetaScheduler", "NewJobRequestEvent"): (
        EventKind.JOB_REQUESTED,
        {"_jobId": "job_number", "_customerAddr": "customer"},
    ),
    ("MetaScheduler", "ClaimJobEvent"): (
        EventKind.JOB_CLAIMED,
        {"jobId": "job_number", "customerAddr": "customer", "providerAddr": "provider"},
    ),
    ("MetaScheduler", "JobRefusedEvent"): (
        EventKind.JOB_REFUSED,
        {"_jobId": "job_number", "_customerAddr": "customer", "_providerAddr": "provider"},
    ),
    ("MetaScheduler", "JobMatched"): (EventKind.JOB_MATCHED, {"jobId": "job_number", "provider": "provider"}),
    ("JobRepository", "JobTransitionEvent"): (EventKind.JOB_TRANSITION, {"_jobId": "job_number"}),
    ("ProviderManager", "ProviderWaitingForApproval"): (EventKind.PROVIDER_CHANGED, {"addr": "provider"}),
    ("ProviderManager", "ProviderApproved"): (EventKind.PROVIDER_CHANGED, {"addr": "provider"}),
    ("ProviderManager", "ProviderRemoved"): (EventKind.PROVIDER_CHANGED, {"addr": "provider"}),
    ("ProviderManager", "ProviderBanChanged"): (EventKind.PROVIDER_CHANGED, {"addr": "provider"}),
}


class EventReader:
    """Reads the events of one grid."""

    def __init__(self, contracts: Contracts) -> None:
        at = {
            "MetaScheduler": contracts.meta_scheduler.address,
            "JobRepository": contracts.jobs.address,
            "ProviderManager": contracts.providers.address,
        }
        self._known: dict[tuple[str, str], tuple[EventType, EventKind, dict[str, str]]] = {}
        for (contract, name), (kind, fields) in _FIELDS.items():
            event = artifact(contract).events[name]
            self._known[at[contract], event.topic] = (event, kind, fields)

    def filter(self, *, first: int, last: int) -> dict[str, Any]:
        """Return the filter of eth_getLogs for these blocks, both ends included."""
        return {
            "fromBlock": hex(first),
            "toBlock": hex(last),
            "address": sorted({address for address, _ in self._known}),
            "topics": [sorted({topic for _, topic in self._known})],
        }

    def read(self, log: Mapping[str, Any]) -> Event | None:
        """Return what a log entry tells, None if it is none of ours."""
        known = self._known.get((log["address"].lower(), log["topics"][0]))
        if known is None:
            return None
        event, kind, names = known
        told = {names[name]: value for name, value in event.decode(log).items() if name in names}
        return Event(
            kind=kind,
            block=int(log["blockNumber"], 16),
            index=int(log["logIndex"], 16),
            job_number=int.from_bytes(told["job_number"]) if "job_number" in told else None,
            customer=to_address(told.get("customer", "")),
            provider=to_address(told.get("provider", "")),
        )
