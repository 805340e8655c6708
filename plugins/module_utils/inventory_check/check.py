# SPDX-License-Identifier: Apache-2.0
"""Runs all checks of an inventory in order.

Each mistake is reported once. An error that is a consequence of a reported mistake is not reported.
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
    vault_secrets,
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
    """Return all mistakes of an inventory; empty if the inventory is correct.

    Args:
        groups: Hosts by group, as Ansible's ``groups``.
        variables: The variables of each host before templating, including ``hostvars``.
        loader: The loader that reads files for templates.
        now: The current time.
        exchanges_authority: Whether the run replaces the certificate authority. If so, an expired
            authority is no mistake.
    """
    used_roles = roles.read_roles(loader)
    defaults, options = {}, {}
    for role in used_roles:
        defaults |= role.defaults
        options |= role.options
    hosts = {}
    for name in groups["all"]:
        host = Host(name, {**defaults, **variables[name]}, loader, options)
        hosts[name] = grid.with_example_contract(host, groups)
    first_host = next(iter(hosts.values()), None)
    secrets_dir = first_host.value("gridstead_secrets_dir") if first_host else None
    inventory = Inventory(groups, hosts, secrets_dir)
    with tempfile.TemporaryDirectory(prefix="gridstead-inventory-") as folder:
        isolated_inventory = _with_temporary_secrets(inventory, Path(folder))
        return _diagnostics(
            isolated_inventory, used_roles, now, exchanges_authority=exchanges_authority
        )


def _with_temporary_secrets(inventory: Inventory, folder: Path) -> Inventory:
    """Return the inventory with ``gridstead_secrets_dir`` set to a temporary folder.

    Links in this folder lead to the existing secrets. If a template creates a secret, the secret is
    written to this folder.
    """
    secrets_dir = Path(str(inventory.secrets_dir))
    if secrets_dir.is_absolute() and secrets_dir.is_dir():
        for secret in secrets_dir.iterdir():
            (folder / secret.name).symlink_to(secret)
    hosts = {}
    for name, host in inventory.hosts.items():
        hosts[name] = host.with_variables({"gridstead_secrets_dir": str(folder)})
    return Inventory(inventory.groups, hosts, inventory.secrets_dir)


def _diagnostics(
    inventory: Inventory, used_roles: list[roles.Role], now: datetime, *, exchanges_authority: bool
) -> list[Diagnostic]:
    if not inventory.hosts:
        no_hosts = Diagnostic(
            where="the inventory", fault="no hosts", allowed="see inventory/README.md"
        )
        return [no_hosts]
    diagnostics = list(layout.check_wiring(inventory))
    if diagnostics:
        return diagnostics
    diagnostics += _check_layout_and_cluster(inventory)
    diagnostics += grid.check_grid(inventory)
    diagnostics += grid.check_trust(inventory, now)
    diagnostics += grid.check_local_chain(inventory)
    diagnostics += machine.check_secrets_folder(inventory)
    diagnostics += machine.check_inventory_folder(inventory)
    diagnostics += example.check_placeholders(inventory)
    diagnostics += authority.check_authority(inventory, now, is_replaced=exchanges_authority)
    diagnostics += vault_secrets.check_secrets(inventory, used_roles[0].wiring)
    diagnostics += roles.check_variable_names(inventory, used_roles)
    faulty_names: frozenset[str] = frozenset()
    for diagnostic in diagnostics:
        faulty_names |= diagnostic.affected_names
    diagnostics += flows.check_flows(inventory, faulty_names)
    checked_settings = settings.check_settings(inventory, faulty_names)
    diagnostics += checked_settings.diagnostics
    diagnostics += settings.check_ports(inventory, checked_settings)
    diagnostics += roles.check_values(inventory, used_roles, faulty_names)
    return diagnostics


def _check_layout_and_cluster(inventory: Inventory) -> Iterator[Diagnostic]:
    yield from layout.check_groups(inventory)
    yield from layout.check_memberships(inventory)
    yield from layout.check_host_names(inventory)
    yield from layout.check_addresses(inventory)
    yield from cluster.check_nodes(inventory)
    yield from keys.check_parameters(inventory)
    yield from cluster.check_state_directories(inventory)
    yield from cluster.check_devices(inventory)
    yield from cluster.check_partitions(inventory)
    yield from cluster.check_wallet_ids(inventory)
    yield from limits.check_limits(inventory)
