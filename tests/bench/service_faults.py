# SPDX-License-Identifier: Apache-2.0
"""Parts of a grid that a campaign stops and starts as it kills services (``service_kills.py``)."""

from __future__ import annotations

import signal


class AgentFault:
    """The agent of a simulated cluster. Its connections break, and its port is closed.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster):
        self.start = cluster.start_agent
        self.kill = cluster.kill_agent


class ChainFault:
    """The server of the chain. It keeps its connections, but does not answer.

    Anvil would lose its newest blocks if it was killed, which no chain does.

    Args:
        anvil: The chain.
    """

    def __init__(self, anvil):
        self._anvil = anvil

    def kill(self):
        """Stop the process."""
        self._anvil.signal(signal.SIGSTOP)

    def start(self):
        """Let the process continue."""
        self._anvil.signal(signal.SIGCONT)
