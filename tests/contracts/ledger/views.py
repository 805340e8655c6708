# SPDX-License-Identifier: Apache-2.0
"""What the contracts' views must answer, by the model. Text is bytes here, as the decoder of answers has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from tests.contracts.ledger import credit, providers, records
from tests.contracts.ledger.access import ADMIN_ROLE, META_SCHEDULER_ROLE
from tests.contracts.ledger.constants import DEFAULTS
from tests.contracts.ledger.providers import MANAGER
from tests.contracts.ledger.records import REPOSITORY
from tests.contracts.ledger.state import FREE, NOBODY, Job, Kind, Profile, Queue
from tests.contracts.ledger.steps import GRID
from tests.contracts.ledger.world import World

from gridstead.domain.billing import Prices
from gridstead.domain.ids import is_address
from gridstead.domain.lifecycle import JobState

QUEUES = "ProviderJobQueues"
ADMINISTERED = (GRID, MANAGER, REPOSITORY)
OWNED = ("Constants", "Credit", QUEUES)
PEEKED = 100
_SIZES = ("getClaimableJobQueueSize", "getCancellingJobQueueSize", "getTopUpJobQueueSize")
_HAS = ("hasNextClaimableJob", "hasCancellingJob", "hasTopUpJob")


@dataclass(frozen=True, slots=True)
class View:
    """A question to a contract, and the answer of the model."""

    contract: str
    function: str
    arguments: tuple[Any, ...]
    answer: tuple[Any, ...]


def to_wire(value: Any) -> Any:
    """Return a value as it is decoded from the wire: texts as bytes, addresses as they are."""
    if isinstance(value, tuple):
        return tuple(to_wire(one) for one in value)
    if isinstance(value, str) and not is_address(value):
        return value.encode()
    return value


def of_every_call(world: World, accounts: Iterable[str]) -> Iterator[View]:
    """Yield what most calls change: all jobs, all credits, all queues."""
    jobs = tuple(world.state.jobs.values())
    ids = tuple(job.id for job in jobs)
    yield View(REPOSITORY, "getMany", (ids,), (tuple(_job(job) for job in jobs),))
    yield View(REPOSITORY, "termsMany", (ids,), (tuple(_terms(job) for job in jobs),))
    yield View(GRID, "accruedFees", (), (world.state.fees,))
    for account in (*accounts, world.grid):
        yield View("Credit", "balanceOf", (account,), (credit.balance(world, account),))
    for provider in world.state.standings:
        started = providers.standing(world, provider).started_jobs
        yield View(MANAGER, "getJobCount", (provider,), (started,))
        for kind in Kind:
            yield View(QUEUES, "peek", (kind, provider, PEEKED), (_peeked(world, kind, provider),))


def of_everything_else(world: World, accounts: Iterable[str]) -> Iterator[View]:
    """Yield the rest of what is known."""
    yield View(GRID, "enableRequestNewJob", (), (world.state.takes_jobs,))
    yield View(REPOSITORY, "jobIdCounter", (), (len(world.state.jobs),))
    yield from ((View("Constants", name, (), (world.state.constants[name],))) for name in DEFAULTS)
    for contract in OWNED:
        yield View(contract, "owner", (), (world.state.owners[contract],))
        yield View(contract, "pendingOwner", (), (world.state.offers.get(contract, NOBODY),))
    for asked in product(ADMINISTERED, (ADMIN_ROLE, META_SCHEDULER_ROLE), (*accounts, world.grid)):
        contract, *member = asked
        yield View(contract, "hasRole", tuple(member), (asked in world.state.members,))
    supply = sum(world.state.balances.values())
    yield View("Credit", "totalSupply", (), (supply,))
    listed = tuple(bytes(12) + bytes.fromhex(provider[2:]) for _, provider in world.state.listed)
    yield View(MANAGER, "fetchPage", (0, PEEKED), (listed, len(listed), 0))
    for account in accounts:
        yield from _account(world, account)


def _account(world: World, account: str) -> Iterator[View]:
    yield View("Credit", "allowance", (account, world.grid), (credit.allowance(world, account, world.grid),))
    yield View("Credit", "nonces", (account,), (world.state.permits_used.get(account, 0),))
    owned = tuple(job.id for job in world.state.jobs.values() if job.customer == account)
    yield View(REPOSITORY, "getByCustomer", (account,), (owned,))
    one = providers.standing(world, account)
    prices = one.prices if one.approved else FREE
    valid = providers.is_valid_for_scheduling(world, account)
    yield View(MANAGER, "schedulingTerms", (account,), (valid, _prices(prices)))
    yield View(MANAGER, "isJoined", (account,), (providers.is_joined(world, account),))
    yield View(MANAGER, "isBanned", (account,), (one.banned,))
    yield View(MANAGER, "isDraining", (account,), (one.draining,))
    active, waiting = world.state.active.get(account), world.state.waiting.get(account)
    yield View(MANAGER, "isWaitingForApproval", (account,), (waiting is not None,))
    yield View(MANAGER, "getProvider", (account,), (_provider(account, active, prices, banned=one.banned),))
    asked = FREE if waiting is None else waiting.prices
    record = _provider(account, waiting, asked, banned=one.banned)
    yield View(MANAGER, "getWaitingForApprovalProvider", (account,), (record,))
    for kind in Kind:
        queue = world.state.queues.get((kind, account), Queue())
        yield View(QUEUES, _SIZES[kind], (account,), (len(queue.waiting),))
        yield View(QUEUES, _HAS[kind], (account,), (_has_next(world, kind, account),))


def _job(job: Job) -> tuple:
    cost = (job.lock, job.final_cost, job.pending_top_up, job.delegates)
    panicked_at = job.ended_at if job.state is JobState.PANICKED else 0
    time = (job.submitted_at, job.started_at, job.ended_at, job.cancel_requested_at, job.state_block, panicked_at)
    parties, rest = (job.customer, job.provider), (job.name, job.cancel_requested, job.error, job.exit_code)
    return to_wire((job.id, job.state, *parties, job.definition, cost, time, *rest))


def _terms(job: Job) -> tuple:
    times = (job.claimed_at, job.started_at, job.state_block)
    flags = (job.delegates, job.cancel_requested)
    return (job.state, job.customer, job.provider, job.price, job.lock, *times, *flags)


def _prices(prices: Prices) -> tuple[int, int, int]:
    return prices.gpu_per_min, prices.cpu_per_min, prices.memory_mb_per_min


def _provider(account: str, record: Profile | None, prices: Prices, *, banned: bool) -> tuple:
    if record is None:
        return NOBODY, (0, (), (), ()), (0, 0, 0), (), banned
    return to_wire((account, record.hardware, _prices(prices), record.labels, banned))


def _live(world: World, kind: Kind, provider: str) -> tuple[bool, ...]:
    queue = world.state.queues.get((kind, provider), Queue())
    return tuple(records.is_live(world, kind, job_id, provider) for job_id in queue.waiting)


def _peeked(world: World, kind: Kind, provider: str) -> tuple[bytes, ...]:
    """Return the live entries that are seen without skipping more stale ones in a row than the bound."""
    queue = world.state.queues.get((kind, provider), Queue())
    seen, stale = [], 0
    for job_id, live in zip(queue.waiting, _live(world, kind, provider), strict=True):
        stale = 0 if live else stale + 1
        if live:
            seen.append(job_id)
        if stale == records.MAX_SKIPPED:
            break
    return tuple(seen[:PEEKED])


def _has_next(world: World, kind: Kind, provider: str) -> bool:
    """Return whether a claim makes progress: something live is in reach, or something lies beyond it."""
    live = _live(world, kind, provider)
    return any(live[: records.MAX_SKIPPED]) or len(live) > records.MAX_SKIPPED
