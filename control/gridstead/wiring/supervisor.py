# SPDX-License-Identifier: Apache-2.0
"""gridstead supervisor run."""

from __future__ import annotations

import os

from gridstead.adapters.chain.contract import ask
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.job_definitions import JobDefinitionClient, ProviderWallet
from gridstead.adapters.journal.cursor import SqlCursor
from gridstead.adapters.journal.database import Database
from gridstead.adapters.journal.journal import SqlJournal
from gridstead.adapters.slurm.agent import AgentClient
from gridstead.adapters.slurm.ssh import SshAccess, SshScheduler
from gridstead.config import Slurm, SshKeys, SupervisorSettings, to_wei
from gridstead.domain.billing import Prices
from gridstead.domain.evidence import Patience
from gridstead.domain.offers import Terms
from gridstead.domain.snapshot import Rules
from gridstead.errors import ConfigError
from gridstead.ports import Clock, Reports, Scheduler
from gridstead.rpc.ssh_keys import SshKeyServer
from gridstead.services.follower import Follower
from gridstead.services.registration import Registration
from gridstead.services.supervisor import Supervisor, SupervisorPorts
from gridstead.wiring import loop
from gridstead.wiring.chain import OpenChain, open_chain, open_wallet
from gridstead.wiring.credentials import read_key, to_files
from gridstead.wiring.sending import open_sending

REGISTRATION_S = 60
SUBMISSIONS_AT_ONCE = 4


def run(settings: SupervisorSettings) -> None:
    """Run the supervisor until it is stopped."""
    clock = SystemClock()
    failpoint = loop.failpoint_from(os.environ)
    database = Database(settings.state_url)
    chain = open_chain(settings.chain)
    wallet = open_wallet(settings.wallet)
    confirmations = settings.chain.confirmations
    sending = open_sending(
        chain, wallet, database, clock, confirmations=confirmations, failpoint=failpoint
    )
    scheduler, reports = open_slurm(settings.slurm, clock)
    ports = SupervisorPorts(
        clock=clock,
        ledger=chain.ledger,
        follower=_follower(chain, wallet, database, confirmations=confirmations),
        journal=SqlJournal(database),
        outbox=sending.outbox,
        scheduler=scheduler,
        reports=reports,
        scripts=_scripts(settings, wallet),
    )
    supervisor = Supervisor(
        ports,
        _rules(settings, chain, wallet),
        submission_threads=SUBMISSIONS_AT_ONCE,
        failpoint=failpoint,
    )
    registration = Registration(
        chain.ledger, sending.outbox, scheduler, provider=wallet.address, terms=_terms(settings)
    )
    ticks = (
        loop.Tick(name="sender", do=sending.sender.tick, every_s=settings.tick_s),
        loop.Tick(name="supervisor", do=supervisor.tick, every_s=settings.tick_s),
        loop.Tick(name="registration", do=registration.tick, every_s=REGISTRATION_S),
    )
    close = [database.close]
    if settings.ssh_keys is not None:
        server = _serve_keys(settings.ssh_keys)
        close.append(server.stop)
    loop.run(ticks, close=tuple(close))


def open_slurm(settings: Slurm, clock: Clock) -> tuple[Scheduler, Reports | None]:
    """Return the way into Slurm, and the reports if that way brings any.

    Raises:
        ConfigError: The table of the chosen transport is missing.
    """
    if settings.transport == "agent":
        if settings.agent is None:
            raise ConfigError(
                "slurm.agent is missing", hint="Transport agent needs a table slurm.agent."
            )
        agent = settings.agent
        channel = open_channel(
            GrpcPeer(
                address=agent.endpoint,
                ca=agent.ca_file,
                certificate=agent.certificate_file,
                key=agent.key_file,
            )
        )
        client = AgentClient(channel)
        return client, client
    if settings.ssh is None:
        raise ConfigError("slurm.ssh is missing", hint="Transport ssh needs a table slurm.ssh.")
    ssh = settings.ssh
    access = SshAccess(
        endpoint=ssh.endpoint,
        user=ssh.user,
        key_file=ssh.key_file,
        known_hosts_file=ssh.known_hosts_file,
    )
    return SshScheduler(access, clock), None


def _follower(
    chain: OpenChain, wallet: Wallet, database: Database, *, confirmations: int
) -> Follower:
    """Return what tells the supervisor of its claims, whatever else happens on the grid."""
    claims = ChainLedger(chain.node, chain.contracts, claims_of=wallet.address)
    cursor = SqlCursor(database, "supervisor")
    return Follower(claims, cursor, start=chain.first_block, confirmations=confirmations)


def _scripts(settings: SupervisorSettings, wallet: Wallet) -> JobDefinitionClient:
    peer = settings.job_definitions
    return JobDefinitionClient(
        GrpcPeer(address=peer.endpoint, ca=peer.ca_file),
        ProviderWallet(address=wallet.address, sign=wallet.sign_text),
        logger_ca_file=settings.logger_ca_file,
    )


def _rules(settings: SupervisorSettings, chain: OpenChain, wallet: Wallet) -> Rules:
    slack_min = None
    if not chain.contracts.has_batches:
        (slack_min,) = ask(
            chain.node, [chain.contracts.constants.slack_minutes()], at_block=chain.ledger.head()
        )
    return Rules(
        chain_id=settings.chain.chain_id,
        contract=chain.contracts.meta_scheduler.address,
        provider=wallet.address,
        confirmations=settings.chain.confirmations,
        claim_limit=settings.claim_limit,
        max_attempts=settings.max_attempts,
        plain_slack_min=slack_min,
        patience=Patience(clock_skew_s=settings.clock_skew_s),
    )


def _terms(settings: SupervisorSettings) -> Terms:
    asked = settings.prices_per_minute
    prices = Prices(
        gpu_per_min=to_wei(asked.gpu_credits),
        cpu_per_min=to_wei(asked.cpu_credits),
        memory_mb_per_min=to_wei(asked.memory_mb_credits),
    )
    return Terms(prices=prices, labels=settings.labels)


def _serve_keys(settings: SshKeys) -> SshKeyServer:
    line = read_key(settings.public_key_file).decode().strip()
    server = SshKeyServer(settings.listen, to_files(settings), authorized_keys=lambda: line)
    server.start()
    return server
