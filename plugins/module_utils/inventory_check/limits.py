# SPDX-License-Identifier: Apache-2.0
"""Checks the settings of QOS and of accounts, and the time settings of partitions.

The checks find values that Slurm cannot read, and names of QOS that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gridstead.site.plugins.module_utils import slurm_limits as _limits

from .diagnostic import Diagnostic
from .inventory import Inventory

DEFAULT_QOS = "normal"  # every cluster has this QOS
_QOS_KEYS_OF_PARTITIONS = ("AllowQos", "DenyQos", "QOS")
_QOS_KEYS_OF_ACCOUNTS = ("DefaultQOS", "QOS")


def check_limits(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find invalid settings of QOS, accounts and partitions, and undefined QOS."""
    controllers = inventory.members("slurm_controller")
    if not controllers:
        return
    qos = _table(controllers[0].value("slurm_qos"))
    partitions = _table(controllers[0].value("slurm_partitions"))
    accounts = controllers[0].value("slurm_accounts")
    names = {DEFAULT_QOS}
    for name in qos:
        names.add(str(name).lower())
    for name, settings in qos.items():
        yield from _check_values(f"slurm_qos.{name}", _limits.QOS, settings)
    for where, settings in _accounts(accounts):
        yield from _check_values(where, _limits.ACCOUNT, settings)
    for name, partition in partitions.items():
        yield from _check_values(
            f"slurm_partitions.{name}", _limits.PARTITION_TIMES, _times(partition)
        )
    for name, settings in qos.items():
        yield from _check_qos_names(f"slurm_qos.{name}", ("Preempt",), _table(settings), names)
    for where, settings in _accounts(accounts):
        yield from _check_qos_names(where, _QOS_KEYS_OF_ACCOUNTS, _table(settings), names)
    for name, partition in partitions.items():
        yield from _check_qos_names(
            f"slurm_partitions.{name}", _QOS_KEYS_OF_PARTITIONS, _table(partition), names
        )


def _accounts(accounts: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(accounts, list):
        return
    for account in accounts:
        if isinstance(account, Mapping):
            yield f'slurm_accounts "{account.get("name")}"', account.get("settings")


def _check_values(where: str, parsers: Any, settings: Any) -> Iterator[Diagnostic]:
    for name, fault, allowed in _limits.invalid_settings(parsers, settings):
        location = f"{where}.{name}" if name else where
        yield Diagnostic(where=location, fault=fault, allowed=allowed)


def _check_qos_names(
    where: str, keys: tuple[str, ...], settings: Mapping[str, Any], names: set[str]
) -> Iterator[Diagnostic]:
    keys_lower = set(map(str.lower, keys))
    for key, value in settings.items():
        if str(key).lower() not in keys_lower:
            continue
        for name in _limits.to_sacctmgr_text(value).lower().split(","):
            if name not in {"", "all", *names}:
                yield Diagnostic(
                    where=f"{where}.{key}",
                    fault=f'there is no QOS "{name}"',
                    allowed=f"one of {', '.join(sorted(names))}; to use a QOS that you manage"
                    f' manually, add "{name}:" without settings to slurm_qos',
                )


def _times(partition: Any) -> Mapping[str, Any]:
    """Return the time settings of a partition by name. Upper and lower case are equal."""
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
