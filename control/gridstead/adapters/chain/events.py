# SPDX-License-Identifier: Apache-2.0
"""Decodes the contracts' events as domain events.

The events are those of the published ABI. Gridstead's contracts ("our contracts") emit them, and so
do the contracts of DeepSquare 1.2 ("plain DeepSquare"), from which ours are derived. The published
event of a claim has no index by provider. Therefore the claims of one provider are read from an
additional event of our contracts, which plain DeepSquare does not emit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eth_utils.crypto import keccak

from gridstead.adapters.chain.abi import EventType, artifact
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.records import to_address
from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.lifecycle import JobState

_SCHEDULER_ROLE = keccak(text="METASCHEDULER_ROLE")
EventFields = dict[tuple[str, str], tuple[ChainEventKind, dict[str, str]]]

# For each event of a contract: the kind of the domain event, and a dict from the contract's name of
# each field to the domain's name of that field.
_FIELDS: EventFields = {
    ("MetaScheduler", "NewJobRequestEvent"): (
        ChainEventKind.JOB_REQUESTED,
        {"_jobId": "job", "_customerAddr": "customer"},
    ),
    ("MetaScheduler", "ClaimJobEvent"): (
        ChainEventKind.JOB_CLAIMED,
        {"jobId": "job", "customerAddr": "customer", "providerAddr": "provider"},
    ),
    ("MetaScheduler", "JobRefusedEvent"): (
        ChainEventKind.JOB_REFUSED,
        {"_jobId": "job", "_customerAddr": "customer", "_providerAddr": "provider"},
    ),
    ("JobRepository", "JobTransitionEvent"): (
        ChainEventKind.JOB_TRANSITION,
        {"_jobId": "job", "_to": "state"},
    ),
    # DeepSquare 1.2 emits neither of these two events.
    ("MetaScheduler", "JobToppedUp"): (
        ChainEventKind.JOB_TOPPED_UP,
        {"jobId": "job", "amount": "amount"},
    ),
    ("MetaScheduler", "JobCancelRequested"): (
        ChainEventKind.JOB_CANCEL_REQUESTED,
        {"jobId": "job"},
    ),
    # Anyone may emit ProviderWaitingForApproval, so no service reads this event.
    ("ProviderManager", "ProviderApproved"): (
        ChainEventKind.PROVIDER_APPROVED,
        {"addr": "provider"},
    ),
    ("ProviderManager", "ProviderRemoved"): (
        ChainEventKind.PROVIDER_CHANGED,
        {"addr": "provider"},
    ),
    ("ProviderManager", "ProviderBanChanged"): (
        ChainEventKind.PROVIDER_CHANGED,
        {"addr": "provider"},
    ),
    # DeepSquare 1.2 emits neither of these two events. An approved provider changes its prices
    # there only by a new approval.
    ("ProviderManager", "ProviderPricesChanged"): (
        ChainEventKind.PROVIDER_CHANGED,
        {"provider": "provider"},
    ),
    ("ProviderManager", "ProviderDrainingChanged"): (
        ChainEventKind.PROVIDER_CHANGED,
        {"provider": "provider"},
    ),
}
# The transfers of credits and the changes of roles, which only the meta-scheduler reads.
_TRANSFERS: EventFields = {
    ("MetaScheduler", "RoleGranted"): (
        ChainEventKind.SCHEDULER_ADDED,
        {"role": "role", "account": "scheduler"},
    ),
    ("MetaScheduler", "RoleRevoked"): (
        ChainEventKind.SCHEDULER_REMOVED,
        {"role": "role", "account": "scheduler"},
    ),
    ("Credit", "Transfer"): (
        ChainEventKind.CREDITS_TRANSFERRED,
        {"from": "sender", "to": "receiver", "value": "amount"},
    ),
}
# _CLAIMS has the published event of a claim, and _OWN_CLAIMS the event of a claim that only our
# contracts emit.
_CLAIMS: EventFields = {
    ("MetaScheduler", "ClaimJobEvent"): _FIELDS["MetaScheduler", "ClaimJobEvent"]
}
_OWN_CLAIMS: EventFields = {
    ("MetaScheduler", "JobClaimed"): (
        ChainEventKind.JOB_CLAIMED,
        {"jobId": "job", "provider": "provider"},
    )
}


class EventReader:
    """Decodes the events of one grid.

    Args:
        contracts: The contracts of the grid.
        claims_of: Empty to read all events. The address of a provider to read only the claims of
            this provider. On plain DeepSquare, claims cannot be searched by provider, so the claims
            of all providers are read instead.
        with_transfers: Whether to read the transfers of credits and the changes of the role of
            meta-schedulers too.
    """

    def __init__(
        self, contracts: Contracts, *, claims_of: str = "", with_transfers: bool = False
    ) -> None:
        addresses = {
            "MetaScheduler": contracts.meta_scheduler.address,
            "JobRepository": contracts.jobs.address,
            "ProviderManager": contracts.providers.address,
            "Credit": contracts.credit.address,
        }
        self._job_id = contracts.job_id
        fields = _CLAIMS if claims_of else _FIELDS
        if with_transfers:
            fields = fields | _TRANSFERS
        self._indexed_topics: list[Any] = []
        if claims_of and contracts.has_batches:
            fields = _OWN_CLAIMS
            # The indexed fields of the event: any job id, and the provider's address, which is
            # padded to 32 bytes.
            address_digits = claims_of.removeprefix("0x").rjust(64, "0")
            self._indexed_topics = [None, f"0x{address_digits}"]
        self._event_types: dict[
            tuple[str, str], tuple[EventType, ChainEventKind, dict[str, str]]
        ] = {}
        for (contract, name), (kind, field_names) in fields.items():
            event = artifact(contract).events[name]
            self._event_types[addresses[contract], event.topic] = (event, kind, field_names)

    def filter(self) -> dict[str, Any]:
        """Return addresses and topics as parameters of eth_getLogs."""
        return {
            "address": sorted({address for address, _ in self._event_types}),
            "topics": [sorted({topic for _, topic in self._event_types}), *self._indexed_topics],
        }

    def read(self, log: Mapping[str, Any]) -> ChainEvent | None:
        """Return the event of a log entry, or None if the reader does not decode this event."""
        event_type = self._event_types.get((log["address"].lower(), log["topics"][0]))
        if event_type is None:
            return None
        event, kind, field_names = event_type
        arguments = event.decode(log)
        values_by_field = {field: arguments[name] for name, field in field_names.items()}
        if values_by_field.get("role", _SCHEDULER_ROLE) != _SCHEDULER_ROLE:
            return None
        job_number = values_by_field.get("job")
        job_id = None
        if job_number is not None:
            job_id = self._job_id(int.from_bytes(job_number))
        state = values_by_field.get("state")
        return ChainEvent(
            kind=kind,
            block=int(log["blockNumber"], 16),
            index=int(log["logIndex"], 16),
            job_id=job_id,
            customer=to_address(values_by_field.get("customer", "")),
            provider=to_address(values_by_field.get("provider", "")),
            state=None if state is None else JobState(state),
            sender=to_address(values_by_field.get("sender", "")),
            receiver=to_address(values_by_field.get("receiver", "")),
            amount=values_by_field.get("amount", 0),
            scheduler=to_address(values_by_field.get("scheduler", "")),
        )
