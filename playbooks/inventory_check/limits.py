# SPDX-License-Identifier: Apache-2.0
"""QOS, limits of accounts and times of partitions that Slurm cannot read, and QOS that nobody
makes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any

from inventory_check.problem import Problem
from inventory_check.site import CHECKOUT, Site

spec = importlib.util.spec_from_file_location(
    "slurm_limits", CHECKOUT / "roles/slurm/module_utils/slurm_limits.py"
)
_limits = importlib.util.module_from_spec(spec)
spec.loader.exec_module(_limits)

SLURMS_OWN = "normal"  # which every cluster has
_OF_PARTITIONS = ("AllowQos", "DenyQos", "QOS")
_OF_ACCOUNTS = ("DefaultQOS", "QOS")


def limits(site: Site) -> Iterator[Problem]:
    """Find settings of QOS, accounts and partitions that make no sense, and QOS that are named and
    never made.
    """
    controllers = site.members("slurm_controller")
    if not controllers:
        return
    made = _table(controllers[0].value("slurm_qos"))
    partitions = _table(controllers[0].value("slurm_partitions"))
    accounts = controllers[0].value("slurm_accounts")
    accounts = (
        [one for one in accounts if isinstance(one, Mapping)] if isinstance(accounts, list) else []
    )
    of_accounts = {f'slurm_accounts "{one.get("name")}"': one.get("settings") for one in accounts}
    for where, known, asked in [
        *((f"slurm_qos.{name}", _limits.QOS, one) for name, one in made.items()),
        *((where, _limits.ACCOUNT, one) for where, one in of_accounts.items()),
        *(
            (f"slurm_partitions.{name}", _limits.PARTITION_TIMES, _times(one))
            for name, one in partitions.items()
        ),
    ]:
        for name, found, allowed in _limits.faults(known, asked):
            yield Problem(where=".".join(filter(None, (where, name))), found=found, allowed=allowed)
    names = {str(name).lower() for name in made} | {SLURMS_OWN}
    for where, keys, asked in [
        *((f"slurm_qos.{name}", ("Preempt",), one) for name, one in made.items()),
        *((where, _OF_ACCOUNTS, one) for where, one in of_accounts.items()),
        *((f"slurm_partitions.{name}", _OF_PARTITIONS, one) for name, one in partitions.items()),
    ]:
        yield from _unmade(where, keys, _table(asked), names)


def _unmade(
    where: str, keys: tuple[str, ...], asked: Mapping[str, Any], names: set[str]
) -> Iterator[Problem]:
    wanted = {key.lower() for key in keys}
    for key, value in asked.items():
        named = _limits.written(value).lower().split(",") if str(key).lower() in wanted else []
        for name in named:
            if name not in {"", "all", *names}:
                own = f'one made by hand has "{name}:" and nothing after it in slurm_qos, and is left as it is'
                allowed = f"one of slurm_qos and Slurm's own: {', '.join(sorted(names))}; {own}"
                yield Problem(
                    where=f"{where}.{key}", found=f'there is no QOS "{name}"', allowed=allowed
                )


def _times(partition: Any) -> Mapping[str, Any]:
    """Return the times of a partition, whose names slurm.conf takes in any case of letters."""
    said = {str(key).lower(): value for key, value in _table(partition).items()}
    return {name: said[name.lower()] for name in _limits.PARTITION_TIMES if name.lower() in said}


def _table(said: Any) -> Mapping[str, Any]:
    return said if isinstance(said, Mapping) else {}
