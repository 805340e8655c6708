# SPDX-License-Identifier: Apache-2.0
"""Runs all checks in order.

A mistake is reported once, and errors that only follow from it are not reported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader

from . import (
    authority,
    cluster,
    example,
    flows,
    grid,
    keys,
    layout,
    limits,
    machine,
    roles,
    settings,
    vaulted,
)
from .diagnostic import Diagnostic
from .inventory import Host, Inventory


def check(
    groups: Mapping[str, list[str]],
    variables: Mapping[str, Mapping[str, Any]],
    loader: DataLoader,
    now: datetime,
    *,
    exchanges_authority: bool = False,
) -> list[Diagnostic]:
    """Return all mistakes of an inventory; empty if it is correct.

    Args:
        groups: Hosts by group, as Ansible's ``groups``.
        variables: The variables of each host as they are written, including ``hostvars``.
        loader: The loader that reads files for templates.
        now: The time.
        exchanges_authority: Whether the run replaces the authority. It may then have expired.
    """
    used_roles = roles.of_site(loader)
    defaults, options = {}, {}
    for role in used_roles:
        defaults |= role.defaults
        options |= role.options
    hosts = {}
    for name in groups["all"]:
        hosts[name] = Host(name, {**defaults, **variables[name]}, loader, options)
    first = next(iter(hosts.values()), None)
    secrets_dir = first.value("gridstead_secrets_dir") if first else None
    inventory = Inventory(groups, hosts, secrets_dir)
    with tempfile.TemporaryDirectory(prefix="gridstead-inventory-") as folder:
        isolated = _isolated(inventory, Path(folder))
        return _diagnostics(isolated, used_roles, now, exchanges_authority=exchanges_authority)


def _isolated(inventory: Inventory, folder: Path) -> Inventory:
    """Return the inventory with its secrets in a temporary folder.

    The folder has links to the existing secrets. Secrets that templates create go into the folder.
    """
    own = Path(str(inventory.secrets_dir))
    if own.is_absolute() and own.is_dir():
        for secret in own.iterdir():
            (folder / secret.name).symlink_to(secret)
    hosts = {}
    for name, host in inventory.hosts.items():
        isolated = host.with_variables({"gridstead_secrets_dir": str(folder)})
        hosts[name] = grid.with_unborn_contract(isolated, inventory)
    return Inventory(inventory.groups, hosts, inventory.secrets_dir)


def _diagnostics(
    inventory: Inventory, used_roles: list[roles.Role], now: datetime, *, exchanges_authority: bool
) -> list[Diagnostic]:
    if not inventory.hosts:
        missing = Diagnostic(
            where="the inventory", seen="no hosts", allowed="see inventory/README.md"
        )
        return [missing]
    diagnostics = [*layout.wiring(inventory)]
    if diagnostics:
        return diagnostics
    diagnostics += _of_layout_and_cluster(inventory)
    diagnostics += grid.grid(inventory)
    diagnostics += grid.trust(inventory, now)
    diagnostics += grid.local_chain(inventory)
    diagnostics += machine.secrets(inventory)
    diagnostics += machine.among_hosts(inventory)
    diagnostics += example.values(inventory)
    diagnostics += authority.authority(inventory, now, exchanged=exchanges_authority)
    diagnostics += vaulted.secrets(inventory, used_roles[0].wiring)
    diagnostics += roles.variables(inventory, used_roles)
    reported: frozenset[str] = frozenset()
    for diagnostic in diagnostics:
        reported |= diagnostic.about
    diagnostics += flows.flows(inventory, reported)
    read = settings.read(inventory, reported)
    diagnostics += [*read.diagnostics, *settings.ports(inventory, read)]
    return diagnostics + list(roles.demands(inventory, used_roles, reported))


def _of_layout_and_cluster(inventory: Inventory) -> Iterator[Diagnostic]:
    yield from layout.groups(inventory)
    yield from layout.memberships(inventory)
    yield from layout.names(inventory)
    yield from layout.addresses(inventory)
    yield from cluster.nodes(inventory)
    yield from keys.files(inventory)
    yield from cluster.state(inventory)
    yield from cluster.devices(inventory)
    yield from cluster.partitions(inventory)
    yield from cluster.accounts(inventory)
    yield from limits.limits(inventory)
