# SPDX-License-Identifier: Apache-2.0
"""ProviderManager: who may take jobs, with which machines, at which prices."""

from __future__ import annotations

from gridstead.adapters.chain.contract import Contract, Payload, ViewCall
from gridstead.adapters.chain.records import ProviderRecord
from gridstead.domain.billing import Prices
from gridstead.domain.job import Hardware, Label


class ProviderManager(Contract):
    """The providers; no view reverts for an unknown address."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("ProviderManager", address)

    def active(self, provider: str) -> ViewCall[ProviderRecord]:
        """Ask for the record that is in force."""
        return self.view(ProviderRecord.of, "getProvider", provider)

    def waiting(self, provider: str) -> ViewCall[ProviderRecord]:
        """Ask for the record that waits for approval."""
        return self.view(ProviderRecord.of, "getWaitingForApprovalProvider", provider)

    def is_valid_for_scheduling(self, provider: str) -> ViewCall[bool]:
        """Ask whether jobs may be matched to it."""
        return self.view(bool, "isValidForScheduling", provider)

    def is_waiting(self, provider: str) -> ViewCall[bool]:
        """Ask whether a record of its waits for approval."""
        return self.view(bool, "isWaitingForApproval", provider)

    def is_banned(self, provider: str) -> ViewCall[bool]:
        """Ask whether it is shut out."""
        return self.view(bool, "isBanned", provider)

    def register(self, hardware: Hardware, prices: Prices, labels: tuple[Label, ...]) -> Payload:
        """Have the sender's record wait for approval."""
        nodes = (
            hardware.nodes,
            hardware.gpus_per_node,
            hardware.cpus_per_node,
            hardware.memory_per_node_mb,
        )
        asked = (prices.gpu_per_min, prices.cpu_per_min, prices.memory_mb_per_min)
        return self.call("register", nodes, asked, [(label.key, label.value) for label in labels])

    def approve(self, provider: str) -> Payload:
        """Put the waiting record in force; for the grid's administrators."""
        return self.call("approve", provider)

    def remove(self, provider: str) -> Payload:
        """Take a provider out; for the grid's administrators."""
        return self.call("remove", provider)
