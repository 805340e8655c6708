# SPDX-License-Identifier: Apache-2.0
"""The settings of the logger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gridstead.config.tables import TickingService, Tls
from gridstead.config.values import Endpoint, Origin, PositiveInt


class LoggerSettings(TickingService):
    """The settings of gridstead logger."""

    listen: Annotated[Endpoint, Field(description="Address to listen on.")] = "0.0.0.0:8445"
    web_origins: Annotated[
        tuple[Origin, ...],
        Field(
            description="Origins of web pages that may read logs by gRPC-web. `*` means any "
            "origin. If empty, browsers are not served.",
            examples=[["https://portal.example"]],
        ),
    ] = ("*",)
    web_listen: Annotated[Endpoint, Field(description="Address to listen on for browsers.")] = (
        "0.0.0.0:8448"
    )
    tls: Tls
    log_token_key_file: Annotated[
        Path,
        Field(
            description="File with the key of log tokens, at least 32 bytes. The Job Definition "
            "service must have the same key.",
            examples=["/etc/gridstead/secrets/log-token-key"],
        ),
    ]
    storage_directory: Annotated[Path, Field(description="Directory of the logs.")] = Path(
        "/var/lib/gridstead/logger"
    )
    storage_key_file: Annotated[
        Path,
        Field(
            description="File with the key that encrypts logs, at least 32 bytes. Logs cannot be "
            "read without it.",
            examples=["/etc/gridstead/secrets/log-storage-key"],
        ),
    ]
    max_log_mib: Annotated[PositiveInt, Field(description="Maximum size of one log.")] = 256
    max_owner_mib: Annotated[
        PositiveInt,
        Field(
            description="Maximum size of the logs of one owner. The oldest logs are removed first."
        ),
    ] = 10240
    retention_days: Annotated[
        PositiveInt,
        Field(description="Time for which a log is retained after its last line."),
    ] = 30
