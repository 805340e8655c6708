# SPDX-License-Identifier: Apache-2.0
"""The contracts' events as domain events.

Read are those of the published ABI, so both generations answer. A provider that wants to hear of
its own claims alone gets them from our contracts by an event of their own, which can be searched by
provider; the published one cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridstead.adapters.chain.abi import EventType, artifact
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.records import to_address
from gridstead.domain.events import ChainEvent, ChainEventKind

Fields = dict[tuple[str, str], tuple[ChainEventKind, dict[str, str]]]

# Our event, and the names that its fields have in the contracts' event.
_FIELDS: Fields = {
    ("MetaScheduler", "NewJobRequestEvent"): (
        ChainEventKind.JOB_REQUESTED,
        {"_jobId": "job_number", "_customerAddr": "customer"},
    ),
    ("MetaScheduler", "ClaimJobEvent"): (
        ChainEventKind.JOB_CLAIMED,
        {"jobId": "job_number", "customerAddr": "customer", "providerAddr": "provider"},
    ),
    ("MetaScheduler", "JobRefusedEvent"): (
        ChainEventKind.JOB_REFUSED,
        {"_jobId": "job_number", "_customerAddr": "customer", "_providerAddr": "provider"},
    ),
    ("JobRepository", "JobTransitionEvent"): (
        ChainEventKind.JOB_TRANSITION,
        {"_jobId": "job_number"},
    ),
    ("ProviderManager", "ProviderWaitingForApproval"): (
        ChainEventKind.PROVIDER_CHANGED,
        {"addr": "provider"},
    ),
    ("ProviderManager", "ProviderApproved"): (
        ChainEventKind.PROVIDER_CHANGED,
        {"addr": "provider"},
    ),
    ("ProviderManager", "ProviderRemoved"): (ChainEventKind.PROVIDER_CHANGED, {"addr": "provider"}),
    ("ProviderManager", "ProviderBanChanged"): (
        ChainEventKind.PROVIDER_CHANGED,
        {"addr": "provider"},
    ),
}
_CLAIMS: Fields = {("MetaScheduler", "ClaimJobEvent"): _FIELDS["MetaScheduler", "ClaimJobEvent"]}
_OWN_CLAIMS: Fields = {
    ("MetaScheduler", "JobClaimed"): (
        ChainEventKind.JOB_CLAIMED,
        {"jobId": "job_number", "provider": "provider"},
    )
}


class EventReader:
    """Reads the events of one grid.

    Args:
        contracts: The grid.
        claims_of: Read only the claims of this provider, or on plain DeepSquare all claims; empty:
            read all events.
    """

    def __init__(self, contracts: Contracts, *, claims_of: str = "") -> None:
        at = {
            "MetaScheduler": contracts.meta_scheduler.address,
            "JobRepository": contracts.jobs.address,
            "ProviderManager": contracts.providers.address,
        }
        is_own = bool(claims_of) and contracts.has_batches
        fields = _OWN_CLAIMS if is_own else _CLAIMS if claims_of else _FIELDS
        self._indexed: list[Any] = (
            [None, f"0x{claims_of.removeprefix('0x'):0>64}"] if is_own else []
        )
        self._known: dict[tuple[str, str], tuple[EventType, ChainEventKind, dict[str, str]]] = {}
        for (contract, name), (kind, names) in fields.items():
            event = artifact(contract).events[name]
            self._known[at[contract], event.topic] = (event, kind, names)

    def filter(self) -> dict[str, Any]:
        """Return addresses and topics as eth_getLogs takes them."""
        return {
            "address": sorted({address for address, _ in self._known}),
            "topics": [sorted({topic for _, topic in self._known}), *self._indexed],
        }

    def read(self, log: Mapping[str, Any]) -> ChainEvent | None:
        """Return what a log entry tells, None if it is none of ours."""
        known = self._known.get((log["address"].lower(), log["topics"][0]))
        if known is None:
            return None
        event, kind, names = known
        told = {names[name]: value for name, value in event.decode(log).items() if name in names}
        return ChainEvent(
            kind=kind,
            block=int(log["blockNumber"], 16),
            index=int(log["logIndex"], 16),
            job_number=int.from_bytes(told["job_number"]) if "job_number" in told else None,
            customer=to_address(told.get("customer", "")),
            provider=to_address(told.get("provider", "")),
        )
