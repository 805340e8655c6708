# SPDX-License-Identifier: Apache-2.0
"""The settings of the Job Definition service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gridstead.config.tables import Chain, TickingService, Tls
from gridstead.config.values import Endpoint, Network, Origin, PositiveInt, Settings


class DefinitionLimits(Settings):
    """The limits of the Job Definition service. A caller is identified by its IP address."""

    requests_per_s: Annotated[
        PositiveInt,
        Field(description="GraphQL requests of one caller. The burst is twice as high."),
    ] = 300
    upload_mib_per_hour: Annotated[
        PositiveInt,
        Field(description="Data that one caller may send to GraphQL."),
    ] = 128
    calls_per_s: Annotated[
        PositiveInt,
        Field(description="gRPC calls of one caller. The burst is twice as high."),
    ] = 1000
    proxies: Annotated[
        tuple[Network, ...],
        Field(
            description="Networks of trusted proxies. In a request from such a "
            "proxy, the last address in X-Forwarded-For is the caller.",
            examples=[["192.0.2.14/32"]],
        ),
    ] = ()
    unused_mib: Annotated[
        PositiveInt,
        Field(
            description="Maximum size of all scripts that no unsettled job uses. Above this "
            "size the service refuses new scripts."
        ),
    ] = 4096


class JobDefinitionsSettings(TickingService):
    """The settings of gridstead job-definitions."""

    state_url: Annotated[
        str,
        Field(
            description="SQLAlchemy URL of the database with the scripts. Several instances may "
            "share a PostgreSQL database."
        ),
    ] = "sqlite:////var/lib/gridstead/job-definitions/state.db"
    storage_key_file: Annotated[
        Path,
        Field(
            description="File with the keys that encrypt scripts: one key of at least 32 bytes per "
            "line, the newest first.",
            examples=["/etc/gridstead/secrets/script-storage-keys"],
        ),
    ]
    keep_hours: Annotated[
        PositiveInt,
        Field(description="Time for which a script is retained after its job has ended."),
    ] = 24
    unused_hours: Annotated[
        PositiveInt,
        Field(description="Time for which a script is retained while no job uses it."),
    ] = 24
    limits: DefinitionLimits = DefinitionLimits()
    metrics_for: Annotated[
        tuple[Network, ...],
        Field(description="Networks that may read `/metrics` at the GraphQL endpoint."),
    ] = ("127.0.0.0/8", "::1/128")
    chain: Chain
    graphql_listen: Annotated[Endpoint, Field(description="Address to listen on for GraphQL.")] = (
        "0.0.0.0:8443"
    )
    grpc_listen: Annotated[Endpoint, Field(description="Address to listen on for gRPC.")] = (
        "0.0.0.0:8444"
    )
    tls: Tls
    logger_endpoint: Annotated[
        Endpoint,
        Field(description="Address at which jobs reach the logger.", examples=["control:8445"]),
    ]
    log_token_key_file: Annotated[
        Path,
        Field(
            description="File with the key of log tokens, at least 32 bytes. The logger must "
            "have the same key.",
            examples=["/etc/gridstead/secrets/log-token-key"],
        ),
    ]
    web_origins: Annotated[
        tuple[Origin, ...],
        Field(
            description="Origins of web pages that may read answers to GraphQL requests. `*` "
            "means any origin. If empty, web pages cannot read answers.",
            examples=[["https://portal.example"]],
        ),
    ] = ("*",)
    introspection: Annotated[
        bool, Field(description="Whether GraphQL clients may read the schema.")
    ] = False
    module_hosts: Annotated[
        tuple[str, ...],
        Field(
            description="Hosts of the git repositories whose modules workflows may use.",
            examples=[["git.example"]],
        ),
    ] = ()
    module_ca_file: Annotated[
        Path | None,
        Field(
            description="CA of the hosts in `module_hosts`, PEM. If not set, the CAs of the system "
            "are used.",
            examples=["/etc/gridstead/modules-ca.crt"],
        ),
    ] = None
