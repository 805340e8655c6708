# SPDX-License-Identifier: Apache-2.0
"""The cluster agent's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gridstead.config.tables import MutualTls, Storage, TickingService, WalletIds
from gridstead.config.values import Endpoint


class AgentSettings(TickingService):
    """gridstead agent."""

    listen: Annotated[Endpoint, Field(description="host:port for the supervisor.")] = "0.0.0.0:6830"
    tls: MutualTls
    allowed_client: Annotated[
        str, Field(description="Common name of the one certificate that may call.")
    ] = "supervisor"
    report_listen: Annotated[
        Endpoint | None,
        Field(description="host:port (UDP) for reports of nodes; absent: none are taken."),
    ] = "0.0.0.0:6831"
    report_sources: Annotated[
        tuple[str, ...], Field(description="Addresses of the nodes; anything else is dropped.")
    ] = ()
    spool_file: Annotated[
        Path | None, Field(description="Job completion spool; absent: none is read.")
    ] = Path("/var/spool/gridstead/jobcomp.jsonl")
    state_file: Annotated[Path, Field(description="SQLite file of the reports.")] = Path(
        "/var/lib/gridstead/agent/reports.db"
    )
    slurmrestd_socket: Annotated[Path, Field(description="Unix socket of slurmrestd.")] = Path(
        "/run/slurmrestd/slurmrestd.socket"
    )
    partition: Annotated[str, Field(description="Where jobs go.")] = "main"
    account: Annotated[str, Field(description="Parent account of every wallet's association.")] = (
        "grid"
    )
    wallet_ids: WalletIds = WalletIds()
    storage: Storage = Storage()
