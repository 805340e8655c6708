# SPDX-License-Identifier: Apache-2.0
"""The logger's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gridstead.config.tables import TickingService, Tls
from gridstead.config.values import Endpoint, Origin, PositiveInt


class LoggerSettings(TickingService):
    """gridstead logger."""

    listen: Annotated[Endpoint, Field(description="host:port.")] = "0.0.0.0:8445"
    web_origins: Annotated[
        tuple[Origin, ...],
        Field(
            description="Origins of web pages that may read logs by gRPC-web. Without any, browsers are not served.",
            examples=[["https://portal.example"]],
        ),
    ] = ()
    web_listen: Annotated[Endpoint, Field(description="host:port for browsers.")] = "0.0.0.0:8448"
    tls: Tls
    log_token_key_file: Annotated[
        Path, Field(description="Key shared with the Job Definition service; at least 32 bytes.")
    ]
    storage_directory: Annotated[Path, Field(description="Where logs are kept.")] = Path(
        "/var/lib/gridstead/logger"
    )
    storage_key_file: Annotated[
        Path,
        Field(
            description="Key that logs are sealed with; at least 32 bytes. Without it they are lost."
        ),
    ]
    max_log_mib: Annotated[PositiveInt, Field(description="How large one log may become, MiB.")] = (
        256
    )
    max_owner_mib: Annotated[
        PositiveInt,
        Field(description="How much one owner's logs may take, MiB; the oldest go first."),
    ] = 10240
    retention_days: Annotated[
        PositiveInt, Field(description="Days that a log is kept after its last line.")
    ] = 30
