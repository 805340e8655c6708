# SPDX-License-Identifier: Apache-2.0
"""ProviderManager: who may take jobs, with which machines, at which prices, and the list of those approved."""

from __future__ import annotations

from dataclasses import replace

from tests.contracts.ledger.access import ADMIN_ROLE, META_SCHEDULER_ROLE, has_role, require_role
from tests.contracts.ledger.state import Profile, Standing
from tests.contracts.ledger.world import Refused, World, demand

from gridstead.domain.billing import Prices

MANAGER = "ProviderManager"
MAX_UNIT_PRICE = 2**72 - 1
MAX_MEMORY_PRICE = 2**56 - 1


def standing(world: World, provider: str) -> Standing:
    """Return where a provider stands; a stranger stands nowhere."""
    return world.state.standings.get(provider, Standing())


def is_joined(world: World, provider: str) -> bool:
    """Return whether a provider may claim."""
    one = standing(world, provider)
    return one.approved and not one.banned


def is_valid_for_scheduling(world: World, provider: str) -> bool:
    """Return whether a provider may be matched."""
    return is_joined(world, provider) and not standing(world, provider).draining


def register(world: World, hardware: tuple, prices: tuple, labels: tuple) -> None:
    """Ask for approval; an earlier request is replaced."""
    if standing(world, world.sender).banned:
        raise Refused("Banned")
    nodes, *per_node = hardware
    if nodes == 0:
        raise Refused("InvalidNodesCount")
    if any(len(numbers) != nodes for numbers in per_node):
        raise Refused("ArrayLengthMismatch")
    _, cpus, memory = per_node
    if sum(cpus) == 0:
        raise Refused("InvalidTotalCpus")
    if sum(memory) == 0:
        raise Refused("InvalidTotalMem")
    world.state.waiting[world.sender] = Profile(hardware=hardware, labels=labels, prices=_bounded(prices))
    world.emit(MANAGER, "ProviderWaitingForApproval", world.sender)


def set_prices(world: World, prices: tuple) -> None:
    """Change the caller's prices for later matches; a request that waits must not bring older ones back."""
    if not is_joined(world, world.sender):
        raise Refused("NoProvider")
    new = _bounded(prices)
    waiting = world.state.waiting.get(world.sender)
    if waiting is not None:
        world.state.waiting[world.sender] = replace(waiting, prices=new)
    _stand(world, world.sender, prices=new)
    world.emit(MANAGER, "ProviderPricesChanged", world.sender, *prices)


def set_draining(world: World, draining: bool) -> None:  # noqa: FBT001
    """Stop or resume matches with the caller."""
    if not is_joined(world, world.sender):
        raise Refused("NoProvider")
    _stand(world, world.sender, draining=draining)
    world.emit(MANAGER, "ProviderDrainingChanged", world.sender, draining)


def approve(world: World, provider: str) -> None:
    """Make the waiting record the active one."""
    _require_operator(world)
    old = standing(world, provider)
    if old.banned:
        raise Refused("Banned")
    if provider not in world.state.waiting:
        raise Refused("AlreadyDone" if old.approved else "WaitingApprovalOnly")
    record = world.state.waiting.pop(provider)
    world.state.active[provider] = record
    _stand(world, provider, approved=True, prices=record.prices)
    if not old.approved:
        _append(world, provider)
    world.emit(MANAGER, "ProviderApproved", provider)


def remove(world: World, provider: str) -> None:
    """Take a provider off the list; a ban and a waiting request stay."""
    _require_operator(world)
    if not standing(world, provider).approved:
        raise Refused("NoProvider")
    del world.state.active[provider]
    _stand(world, provider, approved=False, draining=False)
    _unlist(world, provider)
    world.emit(MANAGER, "ProviderRemoved", provider)


def ban(world: World, provider: str) -> None:
    """Shut a provider out."""
    _require_operator(world)
    old = standing(world, provider)
    if old.banned:
        raise Refused("AlreadyDone")
    if not old.approved and provider not in world.state.waiting:
        raise Refused("NoProvider")
    _stand(world, provider, banned=True)
    world.emit(MANAGER, "ProviderBanChanged", provider, True)


def unban(world: World, provider: str) -> None:
    """Lift a ban."""
    _require_operator(world)
    if not standing(world, provider).banned:
        raise Refused("AlreadyDone")
    _stand(world, provider, banned=False)
    world.emit(MANAGER, "ProviderBanChanged", provider, False)


def count_start(world: World, provider: str) -> None:
    """Count a job that a provider started."""
    _stand(world, provider, started_jobs=standing(world, provider).started_jobs + 1)


def _stand(world: World, provider: str, **changes: object) -> None:
    world.state.standings[provider] = replace(standing(world, provider), **changes)


def _require_operator(world: World) -> None:
    if not has_role(world, MANAGER, ADMIN_ROLE):
        require_role(world, MANAGER, META_SCHEDULER_ROLE)


def _bounded(prices: tuple) -> Prices:
    gpu, cpu, memory = prices
    fits = gpu <= MAX_UNIT_PRICE and cpu <= MAX_UNIT_PRICE and memory <= MAX_MEMORY_PRICE
    demand(fits, "ProviderManager: price above bound")
    return Prices(gpu_per_min=gpu, cpu_per_min=cpu, memory_mb_per_min=memory)


def _append(world: World, provider: str) -> None:
    last = world.state.listed[-1][0] if world.state.listed else 0
    world.state.listed_ever += 1
    new = world.state.listed_ever
    world.state.listed += ((new, provider),)
    world.emit(MANAGER, "ObjectCreated", new, bytes(12) + bytes.fromhex(provider[2:]))
    if last:
        world.emit(MANAGER, "ObjectsLinked", last, new)
    else:
        world.emit(MANAGER, "NewHead", new)
    world.emit(MANAGER, "NewTail", new)


def _unlist(world: World, provider: str) -> None:
    ids = [0, *(number for number, _ in world.state.listed), 0]
    (gone,) = (number for number, listed in world.state.listed if listed == provider)
    before, after = ids[ids.index(gone) - 1], ids[ids.index(gone) + 1]
    world.state.listed = tuple(entry for entry in world.state.listed if entry[1] != provider)
    if not before:
        world.emit(MANAGER, "NewHead", after)
    if before and after:
        world.emit(MANAGER, "ObjectsLinked", before, after)
    if not after:
        world.emit(MANAGER, "NewTail", before)
    world.emit(MANAGER, "ObjectRemoved", gone)
