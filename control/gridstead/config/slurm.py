# SPDX-License-Identifier: Apache-2.0
"""The settings of the cluster agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gridstead.config.tables import MutualTls, Storage, TickingService, WalletIds
from gridstead.config.values import Endpoint


class AgentSettings(TickingService):
    """The settings of gridstead agent."""

    listen: Annotated[Endpoint, Field(description="Address to listen on for the supervisor.")] = (
        "0.0.0.0:6830"
    )
    tls: MutualTls
    allowed_client: Annotated[
        str, Field(description="Common name of the only client certificate that is accepted.")
    ] = "supervisor"
    report_listen: Annotated[
        Endpoint | None,
        Field(description="UDP address to listen on for reports of nodes."),
    ] = "0.0.0.0:6831"
    report_sources: Annotated[
        tuple[str, ...],
        Field(
            description="Addresses of the nodes. Reports from other addresses are dropped.",
            examples=[["192.0.2.21", "192.0.2.22"]],
        ),
    ] = ()
    spool_file: Annotated[Path | None, Field(description="Spool that jobcomp.lua writes.")] = Path(
        "/var/spool/gridstead/jobcomp.jsonl"
    )
    state_file: Annotated[Path, Field(description="SQLite database with the reports.")] = Path(
        "/var/lib/gridstead/agent/reports.db"
    )
    benchmark_directory: Annotated[
        Path, Field(description="`report_directory` of the benchmarks. It need not exist.")
    ] = Path("/var/lib/gridstead/benchmarks")
    benchmark_request_directory: Annotated[
        Path,
        Field(
            description="Directory of the file that requests a run of the benchmarks. It must "
            "belong to the account of the agent and to the group of the benchmarks' account, and "
            "both may write to it. Anyone who may write there can start benchmarks, which need all "
            "nodes, so nobody else may."
        ),
    ] = Path("/var/lib/gridstead/benchmark-requests")
    slurmrestd_socket: Annotated[Path, Field(description="Unix socket of slurmrestd.")] = Path(
        "/run/slurmrestd/slurmrestd.socket"
    )
    partition: Annotated[str, Field(description="Partition of the jobs.")] = "main"
    account: Annotated[
        str, Field(description="Slurm account of the associations of all wallets.")
    ] = "grid"
    wallet_ids: WalletIds = WalletIds()
    storage: Storage = Storage()
