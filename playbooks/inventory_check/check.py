# SPDX-License-Identifier: Apache-2.0
"""The whole check, in its order: what is wrong is told once, and not again by what follows from it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader

from inventory_check import (
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
from inventory_check.problem import Problem
from inventory_check.site import Host, Site


def check(
    groups: Mapping[str, list[str]],
    variables: Mapping[str, Mapping[str, Any]],
    loader: DataLoader,
    now: datetime,
    *,
    exchanges_authority: bool = False,
) -> list[Problem]:
    """Return all that is wrong with an inventory; nothing if it is good.

    Args:
        groups: Hosts by group, as Ansible's ``groups``.
        variables: The variables of each host as they are written, ``hostvars`` among them.
        loader: What reads the files of templates.
        now: The time.
        exchanges_authority: Whether the run exchanges the authority, which may have ended then.
    """
    wanted = roles.of_site(loader)
    defaults = {name: value for role in wanted for name, value in role.defaults.items()}
    options = {name: option for role in wanted for name, option in role.options.items()}
    with tempfile.TemporaryDirectory(prefix="gridstead-inventory-") as folder:
        hosts = {
            name: Host(name, {**defaults, **variables[name]}, loader, options)
            for name in groups["all"]
        }
        site = Site(
            groups,
            hosts,
            next((host.value("gridstead_secrets_dir") for host in hosts.values()), None),
        )
        return _problems(
            _apart(site, Path(folder)), wanted, now, exchanges_authority=exchanges_authority
        )


def _apart(site: Site, folder: Path) -> Site:
    """Return the site with its secrets in a folder: those it has, by links, and later those that it
    lacks.
    """
    own = Path(str(site.secrets_dir))
    for secret in own.iterdir() if own.is_absolute() and own.is_dir() else []:
        (folder / secret.name).symlink_to(secret)
    hosts = {
        name: grid.with_unborn_contract(
            host.with_variables({"gridstead_secrets_dir": str(folder)}), site
        )
        for name, host in site.hosts.items()
    }
    return Site(site.groups, hosts, site.secrets_dir)


def _problems(
    site: Site, wanted: list[roles.Role], now: datetime, *, exchanges_authority: bool
) -> list[Problem]:
    if not site.hosts:
        return [Problem(where="the inventory", found="no hosts", allowed="see inventory/README.md")]
    found = [*layout.wiring(site)]
    if found:
        return found
    found += [
        *layout.groups(site),
        *layout.memberships(site),
        *layout.names(site),
        *layout.addresses(site),
    ]
    found += [
        *cluster.nodes(site),
        *keys.files(site),
        *cluster.state(site),
        *cluster.devices(site),
        *cluster.partitions(site),
        *cluster.accounts(site),
        *limits.limits(site),
    ]
    found += [*grid.grid(site), *grid.trust(site, now), *grid.local_chain(site)]
    found += [*machine.secrets(site), *machine.among_hosts(site), *example.values(site)]
    found += authority.authority(site, now, exchanged=exchanges_authority)
    found += vaulted.secrets(site, wanted[0].wiring)
    found += roles.variables(site, wanted)
    reported = frozenset[str]().union(*(one.about for one in found))
    found += flows.flows(site, reported)
    read = settings.read(site, reported)
    found += [*read.problems, *settings.ports(site, read)]
    return found + list(roles.demands(site, wanted, reported))
