# SPDX-License-Identifier: Apache-2.0
"""The contract ProviderManager, which stores the providers with their hardware and prices."""

from __future__ import annotations

from eth_utils.crypto import keccak

from gridstead.adapters.chain.contract import Contract, Payload, ViewCall
from gridstead.adapters.chain.records import ProviderRecord
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware, Label


class ProviderManager(Contract):
    """The providers. No view reverts for an unknown address."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("ProviderManager", address)

    def active(self, provider: str) -> ViewCall[ProviderRecord]:
        """Return a call for a provider's approved record."""
        return self.view(ProviderRecord.of, "getProvider", provider)

    def waiting(self, provider: str) -> ViewCall[ProviderRecord]:
        """Return a call for a provider's record that waits for approval."""
        return self.view(ProviderRecord.of, "getWaitingForApprovalProvider", provider)

    def is_valid_for_scheduling(self, provider: str) -> ViewCall[bool]:
        """Return a call for whether jobs may be matched to a provider."""
        return self.view(bool, "isValidForScheduling", provider)

    def is_waiting(self, provider: str) -> ViewCall[bool]:
        """Return a call for whether a provider's record waits for approval."""
        return self.view(bool, "isWaitingForApproval", provider)

    def is_banned(self, provider: str) -> ViewCall[bool]:
        """Return a call for whether a provider is banned."""
        return self.view(bool, "isBanned", provider)

    def register(self, hardware: Hardware, prices: Prices, labels: tuple[Label, ...]) -> Payload:
        """Register the sender as a provider; the record waits for approval."""
        node_resources = (
            hardware.node_count,
            hardware.gpus_per_node,
            hardware.cpus_per_node,
            hardware.memory_per_node_mb,
        )
        prices_per_min = (prices.gpu_per_min, prices.cpu_per_min, prices.memory_mb_per_min)
        label_pairs = [(label.key, label.value) for label in labels]
        return self.call("register", node_resources, prices_per_min, label_pairs)

    def approve(self, provider: str) -> Payload:
        """Approve the waiting record without a check of its content.

        Only administrators of the grid may send this.
        """
        return self.call("approve", provider)

    def approve_record(self, provider: str, record: bytes) -> Payload:
        """Approve a waiting record; contracts of 3.x only.

        The contract refuses the call if the provider has replaced the record.

        Args:
            provider: The address of the provider.
            record: The encoded record, as the view ``waiting`` returned it. The contract compares
                its hash.
        """
        return self.call("approveRecord", provider, keccak(record))

    def remove(self, provider: str) -> Payload:
        """Remove a provider. Only administrators of the grid may send this."""
        return self.call("remove", provider)
