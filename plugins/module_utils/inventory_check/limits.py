# SPDX-License-Identifier: Apache-2.0
"""Checks QOS, limits of accounts and times of partitions.

Finds values that Slurm cannot read, and QOS that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gridstead.site.plugins.module_utils import slurm_limits as _limits

from .diagnostic import Diagnostic
from .inventory import Inventory

SLURMS_OWN = "normal"  # the QOS that every cluster has
_OF_PARTITIONS = ("AllowQos", "DenyQos", "QOS")
_OF_ACCOUNTS = ("DefaultQOS", "QOS")


def limits(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find invalid settings of QOS, accounts and partitions, and undefined QOS."""
    controllers = inventory.members("slurm_controller")
    if not controllers:
        return
    qos = _table(controllers[0].value("slurm_qos"))
    partitions = _table(controllers[0].value("slurm_partitions"))
    accounts = controllers[0].value("slurm_accounts")
    names = {SLURMS_OWN}
    for name in qos:
        names.add(str(name).lower())
    for name, settings in qos.items():
        yield from _invalid(f"slurm_qos.{name}", _limits.QOS, settings)
    for where, settings in _accounts(accounts):
        yield from _invalid(where, _limits.ACCOUNT, settings)
    for name, partition in partitions.items():
        yield from _invalid(f"slurm_partitions.{name}", _limits.PARTITION_TIMES, _times(partition))
    for name, settings in qos.items():
        yield from _undefined(f"slurm_qos.{name}", ("Preempt",), _table(settings), names)
    for where, settings in _accounts(accounts):
        yield from _undefined(where, _OF_ACCOUNTS, _table(settings), names)
    for name, partition in partitions.items():
        yield from _undefined(f"slurm_partitions.{name}", _OF_PARTITIONS, _table(partition), names)


def _accounts(accounts: Any) -> Iterator[tuple[str, Any]]:
    for account in accounts if isinstance(accounts, list) else []:
        if isinstance(account, Mapping):
            yield f'slurm_accounts "{account.get("name")}"', account.get("settings")


def _invalid(where: str, known: Any, settings: Any) -> Iterator[Diagnostic]:
    for name, fault, allowed in _limits.faults(known, settings):
        place = f"{where}.{name}" if name else where
        yield Diagnostic(where=place, seen=fault, allowed=allowed)


def _undefined(
    where: str, keys: tuple[str, ...], settings: Mapping[str, Any], names: set[str]
) -> Iterator[Diagnostic]:
    keys_lower = set(map(str.lower, keys))
    for key, value in settings.items():
        if str(key).lower() not in keys_lower:
            continue
        for name in _limits.to_text(value).lower().split(","):
            if name not in {"", "all", *names}:
                yield Diagnostic(
                    where=f"{where}.{key}",
                    seen=f'there is no QOS "{name}"',
                    allowed=f"one of slurm_qos and Slurm's own: {', '.join(sorted(names))}; to use"
                    f' a QOS that you manage by hand, write "{name}:" and no settings in slurm_qos',
                )


def _times(partition: Any) -> Mapping[str, Any]:
    """Return the times of a partition. Names in slurm.conf are not case-sensitive."""
    by_lower_case = {}
    for key, value in _table(partition).items():
        by_lower_case[str(key).lower()] = value
    times = {}
    for name in _limits.PARTITION_TIMES:
        if name.lower() in by_lower_case:
            times[name] = by_lower_case[name.lower()]
    return times


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
