# SPDX-License-Identifier: Apache-2.0
"""Starts the supervisor: `gridstead supervisor run`."""

from __future__ import annotations

import os

from gridstead.adapters.benchmarks.public_files import PublicReportFiles
from gridstead.adapters.chain.contract import ask
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.channel import GrpcPeer
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.definitions.job_definitions import JobDefinitionClient, ProviderWallet
from gridstead.adapters.slurm.agent import AgentClient
from gridstead.adapters.slurm.ssh import SshAccess, SshScheduler
from gridstead.adapters.store.cursor import SqlCursor
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.journal import SqlJournal
from gridstead.config import Slurm, SshKeys, SupervisorSettings, to_wei
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.supervisor.evidence import WaitTimes
from gridstead.domain.supervisor.offers import Terms
from gridstead.domain.supervisor.snapshot import SupervisorPolicy
from gridstead.errors import ConfigError
from gridstead.ports import Clock
from gridstead.rpc.users import SshKeyServer
from gridstead.services.chain.follower import Follower
from gridstead.services.supervisor.measured_labels import MeasuredLabels
from gridstead.services.supervisor.registration import Registration
from gridstead.services.supervisor.report_publisher import ReportPublisher, Signer
from gridstead.services.supervisor.supervisor import Supervisor, SupervisorPorts
from gridstead.wiring import loop
from gridstead.wiring.agent import open_agent
from gridstead.wiring.chain import ChainAccess, open_chain, open_wallet
from gridstead.wiring.credentials import read_key, tls_files
from gridstead.wiring.transactions import open_outbox

REGISTRATION_INTERVAL_S = 15
SUBMISSION_THREADS = 4


def run(settings: SupervisorSettings) -> None:
    """Run the supervisor until it is stopped."""
    database = Database(settings.state_url)
    ticks, supervisor = _ticks(settings, database)
    close_functions = [database.close, supervisor.close]
    if settings.ssh_keys is not None:
        server = _start_ssh_key_server(settings.ssh_keys)
        close_functions.append(server.stop)
    loop.run(ticks, close=tuple(close_functions))


def _ticks(
    settings: SupervisorSettings, database: Database
) -> tuple[tuple[loop.Tick, ...], Supervisor]:
    """Return the ticks of the sender, the supervisor and the registration, and the supervisor."""
    clock = SystemClock()
    failpoint = loop.failpoint_from(os.environ)
    chain = open_chain(settings.chain)
    wallet = open_wallet(settings.wallet)
    confirmations = settings.chain.confirmations
    outbox, sender = open_outbox(
        chain, wallet, database, confirmations=confirmations, failpoint=failpoint
    )
    slurm = open_slurm(settings.slurm, clock)
    reports = slurm if isinstance(slurm, AgentClient) else None
    ports = SupervisorPorts(
        clock=clock,
        ledger=chain.ledger,
        follower=_follower(chain, wallet, database, confirmations=confirmations),
        journal=SqlJournal(database),
        outbox=outbox,
        scheduler=slurm,
        accounting=slurm,
        reports=reports,
        scripts=_job_definition_client(settings, wallet),
    )
    policy = _policy(settings, chain, wallet)
    send = loop.Shared("sender", sender.tick)
    supervisor = Supervisor(
        ports,
        policy,
        submission_threads=SUBMISSION_THREADS,
        failpoint=failpoint,
        on_queued=send,
    )
    registration = Registration(
        chain.ledger,
        outbox,
        slurm,
        benchmarks=_measured_labels(settings, slurm, clock, wallet),
        provider=wallet.address,
        terms=_terms(settings),
    )
    ticks = (
        loop.Tick(name="sender", function=send, interval_s=settings.tick_s),
        loop.Tick(name="supervisor", function=supervisor.tick, interval_s=settings.tick_s),
        loop.Tick(
            name="registration", function=registration.tick, interval_s=REGISTRATION_INTERVAL_S
        ),
    )
    return ticks, supervisor


def _measured_labels(
    settings: SupervisorSettings, slurm: AgentClient | SshScheduler, clock: Clock, wallet: Wallet
) -> MeasuredLabels | None:
    """Return the labels of the benchmarks. None without the agent, which reads the reports."""
    if not isinstance(slurm, AgentClient):
        return None
    publisher = None
    if settings.benchmark_report_url is not None:
        publisher = ReportPublisher(
            slurm,
            PublicReportFiles(settings.benchmark_report_directory),
            signer=Signer(
                chain_id=settings.chain.chain_id, address=wallet.address, sign=wallet.sign_text
            ),
            url=settings.benchmark_report_url,
        )
    return MeasuredLabels(slurm, clock, wait_s=settings.benchmark_wait_s, publisher=publisher)


def open_slurm(settings: Slurm, clock: Clock) -> AgentClient | SshScheduler:
    """Return the access to Slurm, through the agent or over SSH. SSH gives no reports.

    Raises:
        ConfigError: If the table of the selected transport is missing.
    """
    if settings.transport == "agent":
        return open_agent(settings)
    if settings.ssh is None:
        raise ConfigError(
            "slurm.ssh is missing", hint="Add a table slurm.ssh, which transport ssh requires."
        )
    ssh = settings.ssh
    access = SshAccess(
        endpoint=ssh.endpoint,
        user=ssh.user,
        key_file=ssh.key_file,
        known_hosts_file=ssh.known_hosts_file,
    )
    return SshScheduler(access, clock)


def _follower(
    chain: ChainAccess, wallet: Wallet, database: Database, *, confirmations: int
) -> Follower:
    """Return a follower of the claims of this provider. It skips all other events of the grid."""
    claims = ChainLedger(chain.node, chain.contracts, claims_of=wallet.address)
    cursor = SqlCursor(database, "supervisor")
    return Follower(claims, cursor, first_block=chain.first_block, confirmations=confirmations)


def _job_definition_client(settings: SupervisorSettings, wallet: Wallet) -> JobDefinitionClient:
    peer = settings.job_definitions
    return JobDefinitionClient(
        GrpcPeer(address=peer.endpoint, ca=peer.ca_file),
        ProviderWallet(address=wallet.address, sign=wallet.sign_text),
        logger_ca_file=settings.logger_ca_file,
    )


def _policy(settings: SupervisorSettings, chain: ChainAccess, wallet: Wallet) -> SupervisorPolicy:
    slack_min = None
    if not chain.contracts.has_batches:
        (slack_min,) = ask(
            chain.node, [chain.contracts.constants.slack_minutes()], at_block=chain.ledger.head()
        )
    return SupervisorPolicy(
        chain_id=settings.chain.chain_id,
        contract=chain.contracts.meta_scheduler.address,
        provider=wallet.address,
        confirmations=settings.chain.confirmations,
        claim_limit=settings.claim_limit,
        max_attempts=settings.max_attempts,
        deepsquare_slack_min=slack_min,
        hook_timeout_s=settings.hook_timeout_s,
        wait_times=WaitTimes(clock_skew_s=settings.clock_skew_s),
    )


def _terms(settings: SupervisorSettings) -> Terms:
    prices_in_credits = settings.prices_per_minute
    prices = Prices(
        gpu_per_min=to_wei(prices_in_credits.gpu_credits),
        cpu_per_min=to_wei(prices_in_credits.cpu_credits),
        memory_mb_per_min=to_wei(prices_in_credits.memory_mb_credits),
    )
    return Terms(prices=prices, labels=settings.labels)


def _start_ssh_key_server(settings: SshKeys) -> SshKeyServer:
    """Start the server of the supervisor's public SSH key."""
    public_key = read_key(settings.public_key_file).decode().strip()
    server = SshKeyServer(settings.listen, tls_files(settings), authorized_keys=lambda: public_key)
    server.start()
    return server
