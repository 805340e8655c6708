# SPDX-License-Identifier: Apache-2.0
"""The model of contract ProviderManager: the providers and the list of approved providers."""

from __future__ import annotations

from dataclasses import replace

from tests.contracts.ledger.access import ADMIN_ROLE, META_SCHEDULER_ROLE, has_role, require_role
from tests.contracts.ledger.model import ContractModel, Refused, require
from tests.contracts.ledger.state import ProviderRecord, Standing

from gridstead.domain.jobs.billing import Prices

MANAGER = "ProviderManager"
MAX_UNIT_PRICE = 2**72 - 1
MAX_MEMORY_PRICE = 2**56 - 1


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
    model.state.waiting[model.sender] = ProviderRecord(
        hardware=hardware, labels=labels, prices=_check_prices(prices)
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
    _set_standing(model, model.sender, prices=new_prices)
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
    current = standing(model, provider)
    if current.banned:
        raise Refused("Banned")
    if provider not in model.state.waiting:
        raise Refused("AlreadyDone" if current.approved else "WaitingApprovalOnly")
    record = model.state.waiting.pop(provider)
    model.state.active[provider] = record
    _set_standing(model, provider, approved=True, prices=record.prices)
    if not current.approved:
        _append_to_list(model, provider)
    model.emit(MANAGER, "ProviderApproved", provider)


def remove(model: ContractModel, provider: str) -> None:
    """Remove a provider from the list. A ban or a waiting request of the provider remains."""
    _require_operator(model)
    if not standing(model, provider).approved:
        raise Refused("NoProvider")
    del model.state.active[provider]
    _set_standing(model, provider, approved=False, draining=False)
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
