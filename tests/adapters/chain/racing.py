# SPDX-License-Identifier: Apache-2.0
"""A node on which another account acts just before a transaction."""

from __future__ import annotations

from gridstead.adapters.chain.node import Node


class RacingNode(Node):
    """A node on which ``act`` runs after the estimate of the gas and before the transaction."""

    def __init__(self, url, act):
        super().__init__(url)
        self._act = act

    def batch(self, requests):
        if any(method == "eth_sendRawTransaction" for method, _ in requests):
            self._act()
        return super().batch(requests)
