# SPDX-License-Identifier: Apache-2.0
"""ProviderJobQueues: what waits for a provider on chain."""

from __future__ import annotations

from gridstead.adapters.chain.contract import Contract, ViewCall


class ProviderJobQueues(Contract):
    """Three queues per provider; a size may count entries that are stale."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("ProviderJobQueues", address)

    def claimable(self, provider: str) -> ViewCall[int]:
        """Ask how many matched jobs wait."""
        return self.view(int, "getClaimableJobQueueSize", provider)

    def cancelling(self, provider: str) -> ViewCall[int]:
        """Ask how many cancellations wait."""
        return self.view(int, "getCancellingJobQueueSize", provider)

    def top_up(self, provider: str) -> ViewCall[int]:
        """Ask how many top-ups wait."""
        return self.view(int, "getTopUpJobQueueSize", provider)

    def has_claimable(self, provider: str) -> ViewCall[int]:
        """Ask whether a claim would find a job: 1 or 0."""
        return self.view(int, "hasNextClaimableJob", provider)
