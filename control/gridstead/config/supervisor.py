# SPDX-License-Identifier: Apache-2.0
"""The settings of the supervisor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gridstead.config.tables import Chain, MutualTls, Peer, TickingService, Tls, Wallet
from gridstead.config.values import (
    Credits,
    Endpoint,
    NaturalInt,
    PositiveInt,
    ReportUrl,
    Settings,
    check_labels,
)


class PricesPerMinute(Settings):
    """The provider's prices per minute."""

    gpu_credits: Annotated[
        Credits, Field(description="Price of one GPU per minute.", examples=["8.5"])
    ]
    cpu_credits: Annotated[
        Credits, Field(description="Price of one CPU thread per minute.", examples=["0.95"])
    ]
    memory_mb_credits: Annotated[
        Credits, Field(description="Price of one MB of memory per minute.", examples=["0.00008"])
    ]


class AgentTransport(MutualTls):
    """Access to Slurm through the cluster agent."""

    endpoint: Annotated[
        Endpoint, Field(description="Address of the agent.", examples=["controller:6830"])
    ]


class SshTransport(Settings):
    """Access to Slurm through ssh to the login node."""

    endpoint: Annotated[
        Endpoint, Field(description="Address of sshd on the login node.", examples=["login:22"])
    ]
    user: Annotated[
        str, Field(description="Account on the login node that may run the wrapper with sudo.")
    ] = "gridstead-operator"
    key_file: Annotated[
        Path,
        Field(description="OpenSSH private key.", examples=["/etc/gridstead/ssh/supervisor"]),
    ]
    known_hosts_file: Annotated[
        Path,
        Field(
            description="File with the host key of the login node. Every other host key is "
            "refused.",
            examples=["/etc/gridstead/ssh/known_hosts"],
        ),
    ]


class Slurm(Settings):
    """Access to Slurm."""

    transport: Annotated[
        Literal["agent", "ssh"], Field(description="How the supervisor reaches Slurm.")
    ] = "agent"
    agent: Annotated[
        AgentTransport | None, Field(description="Required if `transport` is `agent`.")
    ] = None
    ssh: Annotated[SshTransport | None, Field(description="Required if `transport` is `ssh`.")] = (
        None
    )

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        if getattr(self, self.transport) is None:
            raise ValueError(f"transport {self.transport} requires a table slurm.{self.transport}")
        return self


class SshKeys(Tls):
    """The SshAPI server. It serves the supervisor's public key to the login node."""

    listen: Annotated[
        Endpoint, Field(description="Address to listen on.", examples=["0.0.0.0:8446"])
    ]
    public_key_file: Annotated[
        Path,
        Field(description="OpenSSH public key.", examples=["/etc/gridstead/ssh/supervisor.pub"]),
    ]


class SupervisorSettings(TickingService):
    """The settings of gridstead supervisor."""

    state_url: Annotated[
        str, Field(description="SQLAlchemy URL of the database with the journal.")
    ] = "sqlite:////var/lib/gridstead/supervisor/state.db"
    chain: Chain
    wallet: Wallet
    job_definitions: Annotated[
        Peer, Field(description="The gRPC server of the Job Definition service.")
    ]
    slurm: Slurm
    prices_per_minute: PricesPerMinute
    labels: Annotated[
        dict[str, str],
        AfterValidator(check_labels),
        Field(
            description="Labels of the provider. [Labels](labels.md) lists the keys with a fixed "
            "meaning. Reserved keys are not permitted.",
            examples=[{"os": "linux", "zone": "site-a"}],
        ),
    ] = {}  # noqa: RUF012 - pydantic copies it
    benchmark_report_url: Annotated[
        ReportUrl | None,
        Field(
            description="Where clients get the signed report of the benchmarks: an HTTPS URL of at "
            "most 64 bytes. If not set, the provider publishes no report, and clients show its "
            "measured labels as claimed.",
            examples=["https://provider.example.org/benchmark-report.json"],
        ),
    ] = None
    benchmark_report_directory: Annotated[
        Path,
        Field(
            description="Directory of the signed reports. Serve its file `benchmark-report.json` "
            "at `benchmark_report_url`."
        ),
    ] = Path("/var/lib/gridstead/supervisor/benchmark-reports")
    logger_ca_file: Annotated[
        str | None,
        Field(
            description="File on the compute nodes with the CA of the grid's logger. If not set, "
            "the CAs of the system are used.",
            examples=["/etc/gridstead/grid-ca.crt"],
        ),
    ] = None
    ssh_keys: Annotated[
        SshKeys | None,
        Field(description="The SshAPI server. It is started only if this table exists."),
    ] = None
    claim_limit: Annotated[
        PositiveInt,
        Field(
            le=200,
            description="Maximum number of jobs in one claim. A claim has no more jobs than Slurm "
            "can start soon.",
        ),
    ] = 50
    max_attempts: Annotated[
        PositiveInt,
        Field(
            description="If Slurm has lost a job this number of times, or has refused it this "
            "number of times, the supervisor gives up the job."
        ),
    ] = 3
    clock_skew_s: Annotated[
        NaturalInt,
        Field(description="Maximum difference between the site's clocks and the times of blocks."),
    ] = 60
    benchmark_wait_s: Annotated[
        NaturalInt,
        Field(
            description="How long the first registration waits for the first report of the "
            "benchmarks. Afterwards the provider registers without measured labels. 0 if the site "
            "runs no benchmarks when it is set up."
        ),
    ] = 0
    hook_timeout_s: Annotated[
        NaturalInt,
        Field(
            le=300,
            description="`slurm_hook_timeout_s` of the site: the maximum run time of pre-hooks. A "
            "bill does not contain the run time of pre-hooks. 0 if the site has no pre-hooks.",
        ),
    ] = 0
