# SPDX-License-Identifier: Apache-2.0
"""Starts the meta-scheduler: `gridstead meta-scheduler run`."""

from __future__ import annotations

import os

from gridstead.adapters.clock import SystemClock
from gridstead.adapters.store.cursor import VolatileCursor
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.decisions import SqlDecisionStore
from gridstead.adapters.store.snapshots import SqlSnapshotStore
from gridstead.config import MetaSchedulerSettings
from gridstead.config.matching import Matching
from gridstead.domain.matching.conditions import OPERATORS
from gridstead.domain.matching.decisions import GAS_PER_MATCH, GAS_PER_SINGLE_MATCH, Rules
from gridstead.domain.matching.policies import POLICIES
from gridstead.domain.matching.shares import HalfLife
from gridstead.rpc.matching import QueueViewServer, Views
from gridstead.rpc.metrics import Gauge, Metrics
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.decision_log import DecisionLog
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches
from gridstead.services.matching.snapshots import INTERVAL_S, Snapshots
from gridstead.wiring import loop
from gridstead.wiring.chain import ChainAccess, open_chain, open_wallet
from gridstead.wiring.credentials import tls_files
from gridstead.wiring.transactions import open_outbox

DECISIONS_PER_PAGE = 20  # of the queue view. A record may have hundreds of matches.


def run(settings: MetaSchedulerSettings) -> None:
    """Run the meta-scheduler until it is stopped."""
    failpoint = loop.failpoint_from(os.environ)
    database = Database(settings.state_url)
    chain = open_chain(settings.chain, with_transfers=True)
    wallet = open_wallet(settings.wallet)
    confirmations = settings.chain.confirmations
    skipped_matches = SkippedMatches(SystemClock())
    outbox, sender = open_outbox(
        chain,
        wallet,
        database,
        confirmations=confirmations,
        failpoint=failpoint,
        on_skipped=skipped_matches.add,
    )
    cursor = VolatileCursor()  # The snapshots contain the position.
    follower = Follower(
        chain.ledger, cursor, first_block=chain.first_block, confirmations=confirmations
    )
    rules = _rules(settings.matching, has_batches=chain.contracts.has_batches)
    decisions = SqlDecisionStore(database, outbox)
    service = MetaScheduler(
        chain.ledger,
        follower,
        outbox,
        confirmations=confirmations,
        skipped_matches=skipped_matches,
        rules=rules,
        decision_log=DecisionLog(decisions, rules, sign=wallet.sign_text),
        wallet=wallet.address,
    )
    snapshots = Snapshots(
        service,
        cursor,
        chain.ledger,
        SqlSnapshotStore(
            database,
            rules=_snapshot_rules(chain, rules, wallet.address, confirmations),
            failpoint=failpoint,
        ),
        confirmations=confirmations,
    )
    ticks = (
        loop.Tick(name="meta_scheduler", function=snapshots.tick, interval_s=settings.tick_s),
        loop.Tick(name="sender", function=sender.tick, interval_s=settings.tick_s),
        loop.Tick(name="snapshots", function=snapshots.save, interval_s=INTERVAL_S),
    )
    close_functions = [database.close, snapshots.save_at_stop]
    if settings.queue_view is not None:
        queue_view = settings.queue_view
        views = Views(
            matched_and_running=service.matched,
            pending=service.pending,
            explanation=lambda number: service.explanation(chain.contracts.job_id(number)),
            excluded=skipped_matches.exclusions,
            metrics=_metrics(skipped_matches).text,
            decisions=lambda first: decisions.records(first=first, count=DECISIONS_PER_PAGE),
            keys=OPERATORS,
        )
        server = QueueViewServer(queue_view.listen, tls_files(queue_view), views)
        server.start()
        close_functions.append(server.stop)
    loop.run(ticks, close=tuple(close_functions))


def _snapshot_rules(chain: ChainAccess, rules: Rules, wallet: str, confirmations: int) -> str:
    """Return what a snapshot depends on, as a text."""
    contracts = chain.contracts
    values = (
        contracts.chain_id,
        contracts.meta_scheduler.address,
        contracts.version,
        chain.first_block,
        confirmations,
        wallet,
        rules,
    )
    return " ".join(map(str, values))


def _rules(matching: Matching, *, has_batches: bool) -> Rules:
    gas_per_match = GAS_PER_MATCH if has_batches else GAS_PER_SINGLE_MATCH
    return Rules(
        policy=POLICIES[matching.policy],
        half_life=HalfLife(matching.half_life_blocks),
        queue_allowance=matching.queue_allowance,
        max_matches=matching.gas_per_block // gas_per_match,
    )


def _metrics(skipped_matches: SkippedMatches) -> Metrics:
    return Metrics(
        {
            "gridstead_providers_excluded": Gauge(
                "Providers that are excluded from all jobs after skipped matches.",
                lambda: len(skipped_matches.exclusions()),
            ),
            "gridstead_match_changes": Gauge(
                "Changes of providers' terms in the last hour that caused skipped matches.",
                skipped_matches.counts,
                label="reason",
            ),
        }
    )
