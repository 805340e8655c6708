# SPDX-License-Identifier: Apache-2.0
"""The contract ProviderJobQueues, which lists the jobs on which each provider must act."""

from __future__ import annotations

from collections.abc import Iterable

from gridstead.adapters.chain.contract import Contract, ViewCall

_CLAIMABLE = 0  # in the contract's enum Kind


class ProviderJobQueues(Contract):
    """The contract has three queues per provider. The size of a queue may include stale entries."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("ProviderJobQueues", address)

    def claimable(self, provider: str) -> ViewCall[int]:
        """Return a call for the number of matched jobs that wait for a claim."""
        return self.view(int, "getClaimableJobQueueSize", provider)

    def next_claimable(self, provider: str, *, limit: int) -> ViewCall[tuple[int, ...]]:
        """Return a call for the numbers of the jobs that the next claims claim; ours only."""
        return self.view(_to_numbers, "peek", _CLAIMABLE, provider, limit)

    def cancelling(self, provider: str) -> ViewCall[int]:
        """Return a call for the number of cancellations that wait."""
        return self.view(int, "getCancellingJobQueueSize", provider)

    def top_up(self, provider: str) -> ViewCall[int]:
        """Return a call for the number of top-ups that wait."""
        return self.view(int, "getTopUpJobQueueSize", provider)

    def has_claimable(self, provider: str) -> ViewCall[int]:
        """Return a call whose result is 1 if a claim would find a job, and otherwise 0."""
        return self.view(int, "hasNextClaimableJob", provider)


def _to_numbers(ids: Iterable[bytes]) -> tuple[int, ...]:
    return tuple(map(int.from_bytes, ids))
