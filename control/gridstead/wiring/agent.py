# SPDX-License-Identifier: Apache-2.0
"""Opens the connection to the cluster agent."""

from __future__ import annotations

from pathlib import Path

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.adapters.slurm.agent import AgentClient
from gridstead.config import Slurm, SupervisorSettings, load
from gridstead.errors import ConfigError


def open_agent(settings: Slurm) -> AgentClient:
    """Return a client of the agent in the settings.

    Raises:
        ConfigError: If the settings name no agent, or a file cannot be read.
    """
    if settings.agent is None:
        raise ConfigError(
            "slurm.agent is missing",
            hint="Add a table slurm.agent, which transport agent requires.",
        )
    agent = settings.agent
    peer = GrpcPeer(
        address=agent.endpoint,
        ca=agent.ca_file,
        certificate=agent.certificate_file,
        key=agent.key_file,
    )
    return AgentClient(open_channel(peer))


def open_agent_of_supervisor(path: Path) -> AgentClient:
    """Return a client of the agent in the supervisor's settings file.

    Raises:
        ConfigError: If the file is invalid, or the supervisor does not use the agent.
    """
    settings = load(SupervisorSettings, path).slurm
    if settings.transport != "agent":
        raise ConfigError(
            f"slurm.transport in {path} is {settings.transport!r}; only 'agent' is allowed",
            hint="The cluster agent starts the benchmarks and returns their reports.",
        )
    return open_agent(settings)
