# SPDX-License-Identifier: Apache-2.0
"""Creates and runs the Job Definition service, for `gridstead job-definitions run`."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network

from gridstead.adapters.chain.wallet import recover
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.definitions.modules import GitModules
from gridstead.adapters.definitions.script_seal import ScriptSeal
from gridstead.adapters.definitions.scripts import Scripts
from gridstead.adapters.store.cursor import SqlCursor
from gridstead.adapters.store.database import Database
from gridstead.config import DefinitionLimits, JobDefinitionsSettings
from gridstead.ports import Ledger
from gridstead.rpc.definitions.graphql import GraphqlService, graphql_server
from gridstead.rpc.definitions.job_definitions import SBatchServer, ToJobId
from gridstead.rpc.metrics import Gauge, Metrics
from gridstead.rpc.rate_limit import RateLimiter
from gridstead.rpc.web import WebServer
from gridstead.services.chain.follower import Follower
from gridstead.services.definitions.job_definitions import JobDefinitions, LoggerAccess
from gridstead.services.definitions.script_keeper import Retention, ScriptKeeper
from gridstead.wiring import loop
from gridstead.wiring.chain import open_chain
from gridstead.wiring.credentials import read_key, read_keys, tls_files

MIB = 1024 * 1024
HOUR_S = 3600
SWEEP_INTERVAL_S = 60.0
BURST_S = 2  # seconds of the rate that a caller may use at once

Check = Callable[[], None]


def run(settings: JobDefinitionsSettings) -> None:
    """Run the Job Definition service until it is stopped."""
    keys = read_keys(settings.storage_key_file)
    database = Database(settings.state_url, shared=True)
    chain = open_chain(settings.chain)
    to_job_id = chain.contracts.job_id
    store = Scripts(database, ScriptSeal(keys), to_job_id)
    cursor = SqlCursor(database, "job-definitions")
    follower = _follower(store, chain.ledger, cursor, first_block=chain.first_block)
    keeper = _keeper(settings, store, chain.ledger, follower)
    service = _service(settings, keeper, store, chain.ledger, challenge_keys=keys)
    metrics = _metrics(store, chain.ledger, cursor)
    graphql, sbatch = _servers(
        settings,
        service,
        metrics,
        check_ready=lambda: _check_ready(store, chain.ledger),
        to_job_id=to_job_id,
    )
    graphql.start()
    sbatch.start()
    ticks = (
        loop.Tick(name="learn", function=keeper.read_chain, interval_s=settings.tick_s),
        loop.Tick(name="sweep", function=keeper.sweep, interval_s=SWEEP_INTERVAL_S),
    )
    loop.run(ticks, close=(database.close, sbatch.stop, graphql.stop))


def _keeper(
    settings: JobDefinitionsSettings, store: Scripts, ledger: Ledger, follower: Follower
) -> ScriptKeeper:
    retention = Retention(
        after_end_s=settings.keep_hours * HOUR_S,
        unused_s=settings.unused_hours * HOUR_S,
        max_unused_bytes=settings.limits.unused_mib * MIB,
    )
    return ScriptKeeper(
        store=store, ledger=ledger, follower=follower, clock=SystemClock(), retention=retention
    )


def _service(
    settings: JobDefinitionsSettings,
    keeper: ScriptKeeper,
    store: Scripts,
    ledger: Ledger,
    *,
    challenge_keys: tuple[bytes, ...],
) -> JobDefinitions:
    clock = SystemClock()
    log_token_key = read_key(settings.log_token_key_file)
    return JobDefinitions(
        keeper=keeper,
        nonces=store,
        challenge_keys=challenge_keys,
        ledger=ledger,
        clock=clock,
        recover=recover,
        logger=LoggerAccess(url=settings.logger_endpoint, key=log_token_key),
        modules=GitModules(settings.module_hosts, clock=clock, ca_file=settings.module_ca_file),
    )


def _follower(store: Scripts, ledger: Ledger, cursor: SqlCursor, *, first_block: int) -> Follower:
    """Return the follower of the chain. A new store follows the chain from the newest block on.

    No script is older than its store, so older blocks are not needed.
    """
    with store.exclusive():
        if cursor.load() is None:
            cursor.save(ledger.head())
    return Follower(ledger, cursor, first_block=first_block)


def _servers(
    settings: JobDefinitionsSettings,
    service: JobDefinitions,
    metrics: Metrics,
    *,
    check_ready: Check,
    to_job_id: ToJobId,
) -> tuple[WebServer, SBatchServer]:
    files = tls_files(settings.tls)
    host, _, port = settings.graphql_listen.rpartition(":")
    limits = settings.limits
    graphql_service = GraphqlService(
        submit=metrics.counted("submit", service.submit),
        validate=metrics.counted("validate", service.validate),
        check_ready=check_ready,
        metrics=metrics.text,
        metrics_networks=tuple(map(ip_network, settings.metrics_for)),
        request_limiter=_rate_limit(limits.requests_per_s, "requests", limits),
        byte_limiter=_upload_limit(limits),
        origins=settings.web_origins,
        introspection=settings.introspection,
    )
    graphql = graphql_server(host=host, port=int(port), tls=files, service=graphql_service)
    sbatch = SBatchServer(
        settings.grpc_listen,
        files,
        challenge=metrics.counted("challenge", service.challenge),
        get_sbatch=metrics.counted("get_sbatch", service.get_sbatch),
        call_limiter=_rate_limit(limits.calls_per_s, "calls", limits),
        to_job_id=to_job_id,
    )
    return graphql, sbatch


def _rate_limit(count: int, subject: str, limits: DefinitionLimits) -> RateLimiter:
    return RateLimiter(
        per_s=count,
        burst=BURST_S * count,
        subject=subject,
        proxies=tuple(map(ip_network, limits.proxies)),
    )


def _upload_limit(limits: DefinitionLimits) -> RateLimiter:
    bytes_per_hour = limits.upload_mib_per_hour * MIB
    return RateLimiter(
        per_s=bytes_per_hour / HOUR_S,
        burst=bytes_per_hour,
        subject="uploads",
        proxies=tuple(map(ip_network, limits.proxies)),
    )


def _check_ready(store: Scripts, ledger: Ledger) -> None:
    """Raise an error if the store or the chain does not answer."""
    store.get("ready")  # No script has this id. The query only shows that the store answers.
    ledger.head()


def _metrics(store: Scripts, ledger: Ledger, cursor: SqlCursor) -> Metrics:
    def lag() -> int:
        last_read = cursor.load()
        return ledger.head().number - (last_read.number if last_read else 0)

    return Metrics(
        {
            "gridstead_scripts": Gauge("Stored scripts.", lambda: store.totals().scripts),
            "gridstead_scripts_unused": Gauge(
                "Scripts that no hot job names.", lambda: store.totals().unused
            ),
            "gridstead_scripts_unused_bytes": Gauge(
                "Size of the scripts that no hot job names.", lambda: store.totals().unused_bytes
            ),
            "gridstead_cursor_lag_blocks": Gauge("Blocks that have not been read yet.", lag),
        }
    )
