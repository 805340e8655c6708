# SPDX-License-Identifier: Apache-2.0
"""The supervisor's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gridstead.config.tables import Chain, MutualTls, Peer, TickingService, Tls, Wallet
from gridstead.config.values import Credits, Endpoint, NaturalInt, PositiveInt, Settings


class PricesPerMinute(Settings):
    """What a minute costs."""

    gpu_credits: Annotated[
        Credits, Field(description="Credits per GPU and minute.", examples=["8.5"])
    ]
    cpu_credits: Annotated[
        Credits, Field(description="Credits per CPU thread and minute.", examples=["0.95"])
    ]
    memory_mb_credits: Annotated[
        Credits, Field(description="Credits per MB and minute.", examples=["0.00008"])
    ]


class AgentTransport(MutualTls):
    """The way to Slurm through the cluster agent."""

    endpoint: Annotated[
        Endpoint, Field(description="host:port of the agent.", examples=["controller:6830"])
    ]


class SshTransport(Settings):
    """The way to Slurm through ssh to the login node."""

    endpoint: Annotated[
        Endpoint, Field(description="host:port of sshd on the login node.", examples=["login:22"])
    ]
    user: Annotated[str, Field(description="Operator account that may sudo the one wrapper.")] = (
        "gridstead-operator"
    )
    key_file: Annotated[Path, Field(description="OpenSSH private key.")]
    known_hosts_file: Annotated[
        Path, Field(description="Pinned host key; an unknown one is refused.")
    ]


class Slurm(Settings):
    """The cluster."""

    transport: Annotated[
        Literal["agent", "ssh"], Field(description="Which of the two ways is taken.")
    ] = "agent"
    agent: Annotated[AgentTransport | None, Field(description="Needed for transport agent.")] = None
    ssh: Annotated[SshTransport | None, Field(description="Needed for transport ssh.")] = None

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        if getattr(self, self.transport) is None:
            raise ValueError(f"transport {self.transport} needs a table slurm.{self.transport}")
        return self


class SshKeys(Tls):
    """SshAPI: the supervisor's public key, for the login node."""

    listen: Annotated[
        Endpoint, Field(description="host:port to listen on.", examples=["0.0.0.0:8446"])
    ]
    public_key_file: Annotated[Path, Field(description="OpenSSH public key.")]


class SupervisorSettings(TickingService):
    """gridstead supervisor."""

    state_url: Annotated[str, Field(description="SQLAlchemy URL of the journal.")] = (
        "sqlite:////var/lib/gridstead/supervisor/state.db"
    )
    chain: Chain
    wallet: Wallet
    job_definitions: Peer
    slurm: Slurm
    prices_per_minute: PricesPerMinute
    labels: Annotated[dict[str, str], Field(description="What the provider says of itself.")] = {}  # noqa: RUF012 - pydantic copies it
    logger_ca_file: Annotated[
        str | None,
        Field(
            description="Path, on compute nodes, of the CA of the grid's logger; absent: well-known ones."
        ),
    ] = None
    ssh_keys: Annotated[SshKeys | None, Field(description="Absent: SshAPI is not served.")] = None
    claim_limit: Annotated[PositiveInt, Field(le=200, description="Jobs in one claim.")] = 50
    max_attempts: Annotated[
        PositiveInt,
        Field(
            description="Submissions of one job that Slurm may lose, or refuse, before it is given up."
        ),
    ] = 3
    clock_skew_s: Annotated[NaturalInt, Field(description="Seconds that clocks may differ.")] = 60
