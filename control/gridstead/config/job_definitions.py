# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gridstead.config.tables import Chain, Service, Tls
from gridstead.config.values import Endpoint


class JobDefinitionsSettings(Service):
    """gridstead job-definitions."""

    state_url: Annotated[str, Field(description="SQLAlchemy URL of the scripts.")] = (
        "sqlite:////var/lib/gridstead/job-definitions/state.db"
    )
    chain: Chain
    graphql_listen: Annotated[Endpoint, Field(description="host:port for GraphQL.")] = "0.0.0.0:8443"
    grpc_listen: Annotated[Endpoint, Field(description="host:port for gRPC.")] = "0.0.0.0:8444"
    tls: Tls
    logger_endpoint: Annotated[
        Endpoint, Field(description="host:port of the logger, as jobs reach it.", examples=["control:8445"])
    ]
    log_token_key_file: Annotated[Path, Field(description="Key shared with the logger; at least 32 bytes.")]
    introspection: Annotated[bool, Field(description="Whether GraphQL clients may read the schema.")] = False
    module_hosts: Annotated[
        tuple[str, ...],
        Field(description="Hosts of git repositories that workflows may use modules of.", examples=[["git.example"]]),
    ] = ()
    module_ca_file: Annotated[
        Path | None, Field(description="Who vouches for these hosts; absent: as the system says.")
    ] = None
