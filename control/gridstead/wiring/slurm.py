# SPDX-License-Identifier: Apache-2.0
"""Starts the cluster agent: `gridstead agent run`."""

from __future__ import annotations

from gridstead.adapters.benchmarks.reports import JsonReports
from gridstead.adapters.benchmarks.runs import ProgressFile, RequestFile, RunLockFile
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.slurm.local import LocalAccounts, LocalRunner
from gridstead.adapters.slurm.munge import Munge
from gridstead.adapters.slurm.reports import SqliteReports
from gridstead.adapters.slurm.rest import LocalSlurm
from gridstead.adapters.slurm.spool import FileSpool
from gridstead.adapters.users.storage import UserStorage
from gridstead.config import AgentSettings
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.rpc.slurm import AgentServer, DatagramReceiver
from gridstead.services.benchmarks.control import RunControl
from gridstead.services.benchmarks.history import ReportHistory
from gridstead.services.slurm.agent import Agent
from gridstead.services.slurm.report_intake import ReportIntake
from gridstead.wiring import loop
from gridstead.wiring.credentials import tls_files

REPORT_INTERVAL_S = 0.1
RECEIVER_CHECK_INTERVAL_S = 5.0


def run(settings: AgentSettings) -> None:
    """Run the cluster agent until it is stopped."""
    clock = SystemClock()
    reports = SqliteReports(settings.state_file, clock)
    agent = open_agent(settings, reports)
    spool = FileSpool(settings.spool_file) if settings.spool_file else None
    intake = ReportIntake(
        reports=reports,
        munge=Munge(),
        spool=spool,
        sources=settings.report_sources,
        clock=clock,
    )
    server = AgentServer(
        settings.listen,
        tls_files(settings.tls),
        scheduler=agent,
        list_records=agent.list_records,
        reports=agent,
        report_texts=ReportHistory(JsonReports(settings.benchmark_directory)).last_texts,
        benchmarks=RunControl(
            RunLockFile(settings.benchmark_directory),
            ProgressFile(settings.benchmark_directory),
            RequestFile(settings.benchmark_request_directory),
        ),
        allowed_client=settings.allowed_client,
    )
    close_functions = [reports.close, server.stop]
    ticks = [loop.Tick(name="reports", function=intake.tick, interval_s=REPORT_INTERVAL_S)]
    if settings.report_listen is not None:
        receiver = DatagramReceiver(settings.report_listen, intake.receive)
        receiver.start()
        close_functions.append(receiver.stop)
        ticks.append(
            loop.Tick(
                name="receiver", function=receiver.check, interval_s=RECEIVER_CHECK_INTERVAL_S
            )
        )
    server.start()
    loop.run(tuple(ticks), close=tuple(close_functions))


def open_agent(settings: AgentSettings, reports: SqliteReports) -> Agent:
    """Return the agent of this host's Slurm.

    Raises:
        ConfigError: If the installed release of Slurm is not supported.
        SchedulerUnavailable: If the command that prints the version of Slurm failed.
    """
    runner = LocalRunner()
    clock = SystemClock()
    paths = settings.storage
    ids = settings.wallet_ids
    slurm = LocalSlurm(
        runner=runner,
        socket=settings.slurmrestd_socket,
        clock=clock,
        partition=settings.partition,
        account=settings.account,
        homes=paths.homes,
    )
    slurm.release()  # An unsupported release must be reported at the start, not at the first job.
    storage = UserStorage(
        homes=paths.homes,
        shared_cache=paths.shared_cache,
        persistent_cache=paths.persistent_cache,
    )
    return Agent(
        slurm=slurm,
        accounts=LocalAccounts(runner=runner, storage=storage, account=settings.account),
        reports=reports,
        wallet_ids=WalletIdRange(first_uid=ids.first_uid, last_uid=ids.last_uid, gid=ids.gid),
        clock=clock,
    )
