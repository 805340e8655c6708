# SPDX-License-Identifier: Apache-2.0
"""The expected results of the contracts' views. Texts are bytes, as in the decoder's results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from tests.contracts.ledger import credit, providers, records, steps
from tests.contracts.ledger.access import ADMIN_ROLE, META_SCHEDULER_ROLE
from tests.contracts.ledger.constants import DEFAULTS
from tests.contracts.ledger.model import ContractModel
from tests.contracts.ledger.providers import MANAGER
from tests.contracts.ledger.records import REPOSITORY
from tests.contracts.ledger.state import NOBODY, ZERO_PRICES, Job, ProviderRecord, Queue, QueueKind
from tests.contracts.ledger.steps import GRID

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.ids import is_address
from gridstead.domain.jobs.lifecycle import JobState

QUEUES = "ProviderJobQueues"
CONTRACTS_WITH_ROLES = (GRID, MANAGER, REPOSITORY)
CONTRACTS_WITH_OWNER = ("Constants", "Credit", QUEUES)
PEEK_LIMIT = 100
_SIZE_VIEWS = ("getClaimableJobQueueSize", "getCancellingJobQueueSize", "getTopUpJobQueueSize")
_HAS_NEXT_VIEWS = ("hasNextClaimableJob", "hasCancellingJob", "hasTopUpJob")


@dataclass(frozen=True, slots=True)
class View:
    """A call of a view function, and the expected result."""

    contract: str
    function: str
    arguments: tuple[Any, ...]
    expected: tuple[Any, ...]


def to_wire(value: Any) -> Any:
    """Return a value as the decoder returns it: texts as bytes, addresses as strings."""
    if isinstance(value, tuple):
        return tuple(map(to_wire, value))
    if isinstance(value, str) and not is_address(value):
        return value.encode()
    return value


def frequent_views(model: ContractModel, accounts: Iterable[str]) -> Iterator[View]:
    """Yield the views that most calls affect: all jobs, credits and queues."""
    jobs = tuple(model.state.jobs.values())
    ids = tuple(job.id for job in jobs)
    yield View(REPOSITORY, "getMany", (ids,), (tuple(map(_expected_job, jobs)),))
    yield View(REPOSITORY, "termsMany", (ids,), (tuple(map(_expected_terms, jobs)),))
    yield View(REPOSITORY, "billUntilMany", (ids,), (tuple(map(steps.bill_until, jobs)),))
    yield View(GRID, "accruedFees", (), (model.state.fees,))
    for account in (*accounts, model.grid):
        yield View("Credit", "balanceOf", (account,), (credit.balance(model, account),))
    for provider in model.state.standings:
        started = providers.standing(model, provider).started_jobs
        yield View(MANAGER, "getJobCount", (provider,), (started,))
        for kind in QueueKind:
            yield View(
                QUEUES,
                "peek",
                (kind, provider, PEEK_LIMIT),
                (_expected_peek(model, kind, provider),),
            )


def other_views(model: ContractModel, accounts: Iterable[str]) -> Iterator[View]:
    """Yield the views that few calls affect."""
    yield View(GRID, "enableRequestNewJob", (), (model.state.is_open,))
    yield View(REPOSITORY, "jobIdCounter", (), (len(model.state.jobs),))
    for name in DEFAULTS:
        yield View("Constants", name, (), (model.state.constants[name],))
    for contract in CONTRACTS_WITH_OWNER:
        yield View(contract, "owner", (), (model.state.owners[contract],))
        yield View(contract, "pendingOwner", (), (model.state.offers.get(contract, NOBODY),))
    roles = (ADMIN_ROLE, META_SCHEDULER_ROLE)
    for contract, role, account in product(CONTRACTS_WITH_ROLES, roles, (*accounts, model.grid)):
        is_member = (contract, role, account) in model.state.members
        yield View(contract, "hasRole", (role, account), (is_member,))
    supply = sum(model.state.balances.values())
    yield View("Credit", "totalSupply", (), (supply,))
    # fetchPage returns each address as a word of 32 bytes.
    provider_words = tuple(
        bytes(12) + bytes.fromhex(provider[2:]) for _, provider in model.state.listed
    )
    yield View(MANAGER, "fetchPage", (0, PEEK_LIMIT), (provider_words, len(provider_words), 0))
    for account in accounts:
        yield from _account_views(model, account)


def _account_views(model: ContractModel, account: str) -> Iterator[View]:
    yield View(
        "Credit",
        "allowance",
        (account, model.grid),
        (credit.allowance(model, account, model.grid),),
    )
    yield View("Credit", "nonces", (account,), (model.state.permits_used.get(account, 0),))
    job_ids = tuple(job.id for job in model.state.jobs.values() if job.customer == account)
    yield View(REPOSITORY, "getByCustomer", (account,), (job_ids,))
    standing = providers.standing(model, account)
    prices = standing.prices if standing.approved else ZERO_PRICES
    valid = providers.is_valid_for_scheduling(model, account)
    yield View(MANAGER, "schedulingTerms", (account,), (valid, _prices(prices)))
    yield View(
        MANAGER, "recentPrices", (account,), (_prices(providers.recent_prices(model, account)),)
    )
    yield View(MANAGER, "isJoined", (account,), (providers.is_joined(model, account),))
    yield View(MANAGER, "isBanned", (account,), (standing.banned,))
    yield View(MANAGER, "isDraining", (account,), (standing.draining,))
    active, waiting = model.state.active.get(account), model.state.waiting.get(account)
    yield View(MANAGER, "isWaitingForApproval", (account,), (waiting is not None,))
    yield View(
        MANAGER,
        "getProvider",
        (account,),
        (_expected_provider(account, active, prices, banned=standing.banned),),
    )
    requested_prices = ZERO_PRICES if waiting is None else waiting.prices
    record = _expected_provider(account, waiting, requested_prices, banned=standing.banned)
    yield View(MANAGER, "getWaitingForApprovalProvider", (account,), (record,))
    for kind in QueueKind:
        queue = model.state.queues.get((kind, account), Queue())
        yield View(QUEUES, _SIZE_VIEWS[kind], (account,), (len(queue.waiting),))
        yield View(
            QUEUES, _HAS_NEXT_VIEWS[kind], (account,), (_expects_next(model, kind, account),)
        )


def _expected_job(job: Job) -> tuple:
    cost = (job.escrow, job.final_cost, job.pending_top_up, job.delegates)
    panicked_at = job.ended_at if job.state is JobState.PANICKED else 0
    time = (
        job.submitted_at,
        job.started_at or job.ended_at,
        job.ended_at,
        job.cancel_requested_at,
        job.state_block,
        panicked_at,
    )
    parties = (job.customer, job.provider)
    outcome = (job.name, job.cancel_requested, job.error, job.exit_code)
    return to_wire((job.id, job.state, *parties, job.definition, cost, time, *outcome))


def _expected_terms(job: Job) -> tuple:
    times = (job.claimed_at, job.started_at, job.state_block)
    flags = (job.delegates, job.cancel_requested)
    return (job.state, job.customer, job.provider, job.price, job.escrow, *times, *flags)


def _prices(prices: Prices) -> tuple[int, int, int]:
    return prices.gpu_per_min, prices.cpu_per_min, prices.memory_mb_per_min


def _expected_provider(
    account: str, record: ProviderRecord | None, prices: Prices, *, banned: bool
) -> tuple:
    if record is None:
        return NOBODY, (0, (), (), ()), (0, 0, 0), (), banned
    return to_wire((account, record.hardware, _prices(prices), record.labels, banned))


def _live_flags(model: ContractModel, kind: QueueKind, provider: str) -> tuple[bool, ...]:
    queue = model.state.queues.get((kind, provider), Queue())
    return tuple(records.is_live(model, kind, job_id, provider) for job_id in queue.waiting)


def _expected_peek(model: ContractModel, kind: QueueKind, provider: str) -> tuple[bytes, ...]:
    """Return the live entries. The search stops after MAX_SKIPPED stale entries in a row."""
    queue = model.state.queues.get((kind, provider), Queue())
    live_entries, stale_count = [], 0
    for job_id, is_live in zip(queue.waiting, _live_flags(model, kind, provider), strict=True):
        if is_live:
            live_entries.append(job_id)
            stale_count = 0
        else:
            stale_count += 1
        if stale_count == records.MAX_SKIPPED:
            break
    return tuple(live_entries[:PEEK_LIMIT])


def _expects_next(model: ContractModel, kind: QueueKind, provider: str) -> bool:
    """Return whether the next claim finds a live entry or leaves entries in the queue.

    A claim removes at most MAX_SKIPPED stale entries.
    """
    live_flags = _live_flags(model, kind, provider)
    return any(live_flags[: records.MAX_SKIPPED]) or len(live_flags) > records.MAX_SKIPPED
