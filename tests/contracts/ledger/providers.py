# SPDX-License-Identifier: Apache-2.0
"""The model of contract ProviderManager: the providers and the list of approved providers."""

from __future__ import annotations

import itertools
from dataclasses import replace

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from tests.contracts.ledger.access import ADMIN_ROLE, META_SCHEDULER_ROLE, has_role, require_role
from tests.contracts.ledger.model import ContractModel, Refused, require
from tests.contracts.ledger.state import NOBODY, ZERO_PRICES, ProviderRecord, Standing

from gridstead.domain.jobs.billing import Prices

MANAGER = "ProviderManager"
MAX_UNIT_PRICE = 2**72 - 1
MAX_MEMORY_PRICE = 2**56 - 1
MAX_LABELS, MAX_LABEL_BYTES = 64, 64
PRICE_NOTICE_S = 600
PROVIDER_TYPE = (
    "(address,(uint64,uint64[],uint64[],uint64[]),(uint256,uint256,uint256),(string,string)[],bool)"
)


def standing(model: ContractModel, provider: str) -> Standing:
    """Return whether a provider is approved, banned or draining, as a Standing.

    An account that never was a provider has the default Standing.
    """
    return model.state.standings.get(provider, Standing())


def is_joined(model: ContractModel, provider: str) -> bool:
    """Return whether a provider may claim jobs."""
    current = standing(model, provider)
    return current.approved and not current.banned


def is_valid_for_scheduling(model: ContractModel, provider: str) -> bool:
    """Return whether a job may be matched with a provider."""
    return is_joined(model, provider) and not standing(model, provider).draining


def register(model: ContractModel, hardware: tuple, prices: tuple, labels: tuple) -> None:
    """Request the approval of the caller. A new request replaces the earlier one."""
    if standing(model, model.sender).banned:
        raise Refused("Banned")
    nodes, gpus, cpus, memory = hardware
    if nodes == 0:
        raise Refused("InvalidNodesCount")
    if (len(gpus), len(cpus), len(memory)) != (nodes, nodes, nodes):
        raise Refused("ArrayLengthMismatch")
    if sum(cpus) == 0:
        raise Refused("InvalidTotalCpus")
    if sum(memory) == 0:
        raise Refused("InvalidTotalMem")
    checked_prices = _check_prices(prices)
    require(_are_bounded(labels), "ProviderManager: too many or too long labels")
    model.state.waiting[model.sender] = ProviderRecord(
        hardware=hardware, labels=labels, prices=checked_prices
    )
    model.emit(MANAGER, "ProviderWaitingForApproval", model.sender)


def set_prices(model: ContractModel, prices: tuple) -> None:
    """Change the caller's prices for later matches.

    If the caller has a request that waits for approval, the prices in the request change too.
    """
    if not is_joined(model, model.sender):
        raise Refused("NoProvider")
    new_prices = _check_prices(prices)
    waiting = model.state.waiting.get(model.sender)
    if waiting is not None:
        model.state.waiting[model.sender] = replace(waiting, prices=new_prices)
    _set_active_prices(model, model.sender, new_prices)
    model.emit(MANAGER, "ProviderPricesChanged", model.sender, *prices)


def set_draining(model: ContractModel, draining: bool) -> None:  # noqa: FBT001
    """Stop matching jobs with the caller, or resume it."""
    if not is_joined(model, model.sender):
        raise Refused("NoProvider")
    _set_standing(model, model.sender, draining=draining)
    model.emit(MANAGER, "ProviderDrainingChanged", model.sender, draining)


def approve(model: ContractModel, provider: str) -> None:
    """Approve a provider. The provider's waiting record becomes the active record."""
    _require_operator(model)
    _approve(model, provider)


def approve_record(model: ContractModel, provider: str, record_hash: bytes) -> None:
    """Approve a provider if its waiting record has this hash."""
    _require_operator(model)
    current_hash = hash_of_waiting_record(model, provider)
    if current_hash != record_hash:
        raise Refused("RecordChanged", current_hash)
    _approve(model, provider)


def hash_of_waiting_record(model: ContractModel, provider: str) -> bytes:
    """Return the hash of the data that getWaitingForApprovalProvider returns."""
    record = model.state.waiting.get(provider)
    banned = standing(model, provider).banned
    values = (NOBODY, (0, [], [], []), (0, 0, 0), [], banned)
    if record is not None:
        prices = record.prices
        price_list = (prices.gpu_per_min, prices.cpu_per_min, prices.memory_mb_per_min)
        values = (provider, record.hardware, price_list, record.labels, banned)
    return keccak(encode([PROVIDER_TYPE], [values]))


def recent_prices(model: ContractModel, provider: str) -> Prices:
    """Return the lowest value of each price since ``PRICE_NOTICE_S`` before now or earlier."""
    current = standing(model, provider)
    if not current.approved:
        return ZERO_PRICES
    prices, earlier = current.prices, current.earlier_prices
    if model.now > current.raised_at + PRICE_NOTICE_S:
        return prices
    return Prices(
        gpu_per_min=min(prices.gpu_per_min, earlier.gpu_per_min),
        cpu_per_min=min(prices.cpu_per_min, earlier.cpu_per_min),
        memory_mb_per_min=min(prices.memory_mb_per_min, earlier.memory_mb_per_min),
    )


def _approve(model: ContractModel, provider: str) -> None:
    current = standing(model, provider)
    if current.banned:
        raise Refused("Banned")
    if provider not in model.state.waiting:
        raise Refused("AlreadyDone" if current.approved else "WaitingApprovalOnly")
    record = model.state.waiting.pop(provider)
    model.state.active[provider] = record
    _set_active_prices(model, provider, record.prices)
    _set_standing(model, provider, approved=True)
    if not current.approved:
        _append_to_list(model, provider)
    model.emit(MANAGER, "ProviderApproved", provider)


def remove(model: ContractModel, provider: str) -> None:
    """Remove a provider from the list. A ban or a waiting request of the provider remains."""
    _require_operator(model)
    if not standing(model, provider).approved:
        raise Refused("NoProvider")
    del model.state.active[provider]
    _set_standing(model, provider, approved=False, draining=False, raised_at=0)
    _remove_from_list(model, provider)
    model.emit(MANAGER, "ProviderRemoved", provider)


def ban(model: ContractModel, provider: str) -> None:
    """Ban a provider."""
    _require_operator(model)
    current = standing(model, provider)
    if current.banned:
        raise Refused("AlreadyDone")
    if not current.approved and provider not in model.state.waiting:
        raise Refused("NoProvider")
    _set_standing(model, provider, banned=True)
    model.emit(MANAGER, "ProviderBanChanged", provider, True)


def unban(model: ContractModel, provider: str) -> None:
    """Lift a ban."""
    _require_operator(model)
    if not standing(model, provider).banned:
        raise Refused("AlreadyDone")
    _set_standing(model, provider, banned=False)
    model.emit(MANAGER, "ProviderBanChanged", provider, False)


def count_start(model: ContractModel, provider: str) -> None:
    """Count a started job of a provider."""
    _set_standing(model, provider, started_jobs=standing(model, provider).started_jobs + 1)


def _set_active_prices(model: ContractModel, provider: str, prices: Prices) -> None:
    """Set the prices of later matches. A rise keeps the lowest recent prices."""
    current = standing(model, provider)
    is_rise = (
        prices.gpu_per_min > current.prices.gpu_per_min
        or prices.cpu_per_min > current.prices.cpu_per_min
        or prices.memory_mb_per_min > current.prices.memory_mb_per_min
    )
    if current.approved and is_rise:
        lowest = recent_prices(model, provider)
        _set_standing(model, provider, earlier_prices=lowest, raised_at=model.now)
    _set_standing(model, provider, prices=prices)


def _are_bounded(labels: tuple) -> bool:
    texts = itertools.chain.from_iterable(labels)
    longest = max((len(text.encode()) for text in texts), default=0)
    return len(labels) <= MAX_LABELS and longest <= MAX_LABEL_BYTES


def _set_standing(model: ContractModel, provider: str, **changes: object) -> None:
    model.state.standings[provider] = replace(standing(model, provider), **changes)


def _require_operator(model: ContractModel) -> None:
    if not has_role(model, MANAGER, ADMIN_ROLE):
        require_role(model, MANAGER, META_SCHEDULER_ROLE)


def _check_prices(prices: tuple) -> Prices:
    gpu, cpu, memory = prices
    are_within_bounds = (
        gpu <= MAX_UNIT_PRICE and cpu <= MAX_UNIT_PRICE and memory <= MAX_MEMORY_PRICE
    )
    require(are_within_bounds, "ProviderManager: price above bound")
    return Prices(gpu_per_min=gpu, cpu_per_min=cpu, memory_mb_per_min=memory)


def _append_to_list(model: ContractModel, provider: str) -> None:
    """Append a provider to the linked list of approved providers. Emit the changes of links."""
    last_id = model.state.listed[-1][0] if model.state.listed else 0
    model.state.listed_ever += 1
    new_id = model.state.listed_ever
    model.state.listed += ((new_id, provider),)
    model.emit(MANAGER, "ObjectCreated", new_id, bytes(12) + bytes.fromhex(provider[2:]))
    if last_id:
        model.emit(MANAGER, "ObjectsLinked", last_id, new_id)
    else:
        model.emit(MANAGER, "NewHead", new_id)
    model.emit(MANAGER, "NewTail", new_id)


def _remove_from_list(model: ContractModel, provider: str) -> None:
    """Remove a provider from the linked list of approved providers. Emit the changes of links."""
    ids, addresses = zip(*model.state.listed, strict=True)
    index = addresses.index(provider)
    removed_id = ids[index]
    previous_id = ids[index - 1] if index > 0 else 0
    next_id = ids[index + 1] if index + 1 < len(ids) else 0
    model.state.listed = model.state.listed[:index] + model.state.listed[index + 1 :]
    if not previous_id:
        model.emit(MANAGER, "NewHead", next_id)
    if previous_id and next_id:
        model.emit(MANAGER, "ObjectsLinked", previous_id, next_id)
    if not next_id:
        model.emit(MANAGER, "NewTail", previous_id)
    model.emit(MANAGER, "ObjectRemoved", removed_id)
