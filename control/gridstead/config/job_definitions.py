# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gridstead.config.tables import Chain, TickingService, Tls
from gridstead.config.values import Endpoint, Network, PositiveInt, Settings


class DefinitionLimits(Settings):
    """What one caller, by its address, and all together may ask of the Job Definition service."""

    requests_per_s: Annotated[
        PositiveInt, Field(description="GraphQL requests of one caller; twice that at once.")
    ] = 300
    upload_mib_per_hour: Annotated[
        PositiveInt,
        Field(description="What one caller may send to GraphQL, and have stored by it, MiB."),
    ] = 128
    calls_per_s: Annotated[
        PositiveInt, Field(description="gRPC calls of one caller; twice that at once.")
    ] = 1000
    proxies: Annotated[
        tuple[Network, ...],
        Field(description="Networks of proxies that are believed whom X-Forwarded-For names last."),
    ] = ()
    unused_mib: Annotated[
        PositiveInt,
        Field(
            description="Size of scripts without a hot job, before it and after its end, MiB; beyond it none is taken."
        ),
    ] = 4096


class JobDefinitionsSettings(TickingService):
    """gridstead job-definitions."""

    state_url: Annotated[
        str,
        Field(
            description="SQLAlchemy URL of the scripts; several instances may share one of PostgreSQL."
        ),
    ] = "sqlite:////var/lib/gridstead/job-definitions/state.db"
    storage_key_file: Annotated[
        Path,
        Field(
            description="Keys that scripts are sealed with, one a line of at least 32 bytes, the newest first."
        ),
    ]
    keep_hours: Annotated[
        PositiveInt, Field(description="Hours that a script is kept after its job has ended.")
    ] = 24
    unused_hours: Annotated[
        PositiveInt, Field(description="Hours that a script is kept that no job names.")
    ] = 24
    limits: DefinitionLimits = DefinitionLimits()
    metrics_for: Annotated[
        tuple[Network, ...],
        Field(description="Networks that may read `/metrics` of the GraphQL address."),
    ] = ("127.0.0.0/8", "::1/128")
    chain: Chain
    graphql_listen: Annotated[Endpoint, Field(description="host:port for GraphQL.")] = (
        "0.0.0.0:8443"
    )
    grpc_listen: Annotated[Endpoint, Field(description="host:port for gRPC.")] = "0.0.0.0:8444"
    tls: Tls
    logger_endpoint: Annotated[
        Endpoint,
        Field(description="host:port of the logger, as jobs reach it.", examples=["control:8445"]),
    ]
    log_token_key_file: Annotated[
        Path, Field(description="Key shared with the logger; at least 32 bytes.")
    ]
    introspection: Annotated[
        bool, Field(description="Whether GraphQL clients may read the schema.")
    ] = False
    module_hosts: Annotated[
        tuple[str, ...],
        Field(
            description="Hosts of git repositories that workflows may use modules of.",
            examples=[["git.example"]],
        ),
    ] = ()
    module_ca_file: Annotated[
        Path | None, Field(description="Who vouches for these hosts; absent: as the system says.")
    ] = None
