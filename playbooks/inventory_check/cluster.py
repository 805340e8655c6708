# SPDX-License-Identifier: Apache-2.0
"""What Slurm is told of nodes, their devices and partitions, and which accounts are wallets'."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, product
from typing import Any

from inventory_check import keys
from inventory_check.problem import Problem
from inventory_check.site import Host, Site, whole

OWN_DISK = "/var/lib/slurm/slurmctld"  # where Debian's slurmctld keeps its state
FIRST_FREE_ID = 65536  # below are the system's own

_RANGE = re.compile(r"\[([0-9,-]+)\]")
_GRES = re.compile(r"gres/([a-z0-9_]+)", re.IGNORECASE)


def nodes(site: Site) -> Iterator[Problem]:
    """Find compute hosts that do not say what they have, or say it in words that Slurm does not
    know.
    """
    for host in site.members("slurm_compute"):
        said = host.value("slurm_node")
        where, about = f"host {host.name}, slurm_node", frozenset({"slurm_node", "slurm_nodes"})
        if not isinstance(said, Mapping):
            found = "missing" if said is None else f"{said!r}"
            yield Problem(
                where=where,
                found=found,
                allowed="a table with CPUs and RealMemory (MB)",
                about=about,
            )
            continue
        for key, unit, told_by in (("CPUs", "", "lscpu"), ("RealMemory", " of MB", "free --mebi")):
            if (whole(said.get(key)) or 0) <= 0:
                yield Problem(
                    where=f"{where}.{key}",
                    found=f'"{said[key]}"' if key in said else "missing",
                    allowed=f"a whole number{unit} above 0, as {told_by} tells on the host, later slurmd -C",
                    about=about,
                )
        yield from keys.unknown(where, said, keys.NODE)
        yield from _cores(where, said)


def _cores(where: str, said: Mapping[str, Any]) -> Iterator[Problem]:
    shape = [whole(said.get(key)) for key in ("Sockets", "CoresPerSocket", "ThreadsPerCore")]
    cpus = whole(said.get("CPUs"))
    if cpus and all(shape):
        sockets, cores, threads = shape
        if cpus not in {sockets * cores, sockets * cores * threads}:
            yield Problem(
                where=f"{where}.CPUs",
                found=f"{cpus} with {sockets} sockets of {cores} cores of {threads} threads",
                allowed=f"{sockets * cores * threads}, or {sockets * cores} for one CPU each core",
            )


def state(site: Site) -> Iterator[Problem]:
    """Find two controllers that do not keep slurmctld's state in one place."""
    if not site.members("slurm_backup_controller"):
        return
    places = {
        host.name: host.value("slurm_config", {}).get("StateSaveLocation")
        or host.value("slurm_state_directory")
        for host in site.members("slurm_controller", "slurm_backup_controller")
    }
    if len(set(places.values())) > 1 or OWN_DISK in places.values():
        yield Problem(
            where="slurm_state_directory",
            found=", ".join(f'"{place}" on {name}' for name, place in places.items()),
            allowed="with a host in slurm_backup_controller, one folder below what both controllers mount",
            about=frozenset({"slurm_state_directory"}),
        )


def devices(site: Site) -> Iterator[Problem]:
    """Find devices (Gres) that one part of the settings declares and another does not know."""
    controllers = site.members("slurm_controller")
    if not controllers:
        return
    config = {
        **controllers[0].value("slurm_config_default", {}),
        **controllers[0].value("slurm_config", {}),
    }
    types = str(config.get("GresTypes", ""))
    lines = controllers[0].value("slurm_gres", [])
    described = {str(line.get("Name", "gpu" if "AutoDetect" in line else "")) for line in lines}
    for host in site.members("slurm_compute"):
        for name in sorted(gres(host)):
            where = f"host {host.name}, slurm_node.Gres"
            if name not in re.split(r"[, \[\]']+", types):
                allowed = f"one of GresTypes in slurm_config_site, which are {types}"
                yield Problem(where=where, found=f'unknown device "{name}"', allowed=allowed)
            elif name not in described:
                allowed = f"a line for {name} in slurm_gres, with its File or AutoDetect"
                yield Problem(
                    where=where, found=f'no line of slurm_gres describes "{name}"', allowed=allowed
                )
    known = {host.name for host in site.members("slurm_compute")}
    for line in lines:
        unknown = [
            node for node in expanded(str(line.get("NodeName") or "")) if node not in {"", *known}
        ]
        if unknown:
            yield Problem(
                where="slurm_gres",
                found=f"NodeName {line['NodeName']}: {', '.join(unknown)} is no compute host",
                allowed=f"some of {', '.join(sorted(known))}, as in gpu[1-2]",
            )
    declared = set(chain.from_iterable(gres(host) for host in site.members("slurm_compute")))
    for name in sorted(described - declared):
        allowed = f"Gres: {name}:COUNT in slurm_node of a compute host, or no such line"
        yield Problem(
            where="slurm_gres",
            found=f'a line for "{name}", which no compute host declares',
            allowed=allowed,
        )


def gres(host: Host) -> set[str]:
    """Return the names of the devices that a compute host declares."""
    said = host.value("slurm_node")
    listed = str(said.get("Gres", "")) if isinstance(said, Mapping) else ""
    return {one.split(":")[0].strip() for one in listed.split(",") if one.strip()}


def partitions(site: Site) -> Iterator[Problem]:
    """Find partitions of nodes or devices that are not there, and a wrong number of default ones."""
    controllers = site.members("slurm_controller")
    table = controllers[0].value("slurm_partitions") if controllers else None
    if not isinstance(table, Mapping):
        return
    by_name = {host.name: host for host in site.members("slurm_compute")}
    defaults: list[str] = []
    for name, said in table.items():
        where = f"slurm_partitions.{name}"
        if not isinstance(said, Mapping):
            yield Problem(
                where=where, found=f'"{said}"', allowed="parameters by name, such as {Nodes: ALL}"
            )
            continue
        listed = [node for node in expanded(str(said.get("Nodes", "ALL"))) if node != "ALL"]
        for node in listed:
            if node not in by_name:
                allowed = f"ALL, or some of {', '.join(by_name)}"
                yield Problem(
                    where=f"{where}.Nodes", found=f"{node} is no compute host", allowed=allowed
                )
        has = set(
            chain.from_iterable(
                gres(by_name[node]) for node in (listed or by_name) if node in by_name
            )
        )
        for device in sorted(_devices(said) - has):
            allowed = f"Gres: {device}:COUNT in slurm_node of one of its hosts"
            yield Problem(
                where=where,
                found=f'speaks of "{device}", which no node of it declares',
                allowed=allowed,
            )
        yield from keys.unknown(where, said, keys.PARTITION)
        if str(said.get("Default", "NO")).upper() in {"YES", "TRUE"}:
            defaults.append(name)
    if len(defaults) > 1:
        yield Problem(
            where="slurm_partitions",
            found=f"Default in {', '.join(defaults)}",
            allowed="Default in one",
        )
    wallets = controllers[0].value("slurm_wallets")
    wanted = wallets.get("partition") if isinstance(wallets, Mapping) else None
    if wanted and wanted not in table:
        yield Problem(
            where="slurm_wallets.partition",
            found=f'"{wanted}", where the jobs of wallets go, is no partition',
            allowed=f"one of slurm_partitions: {', '.join(table)}",
        )


def expanded(hosts: str) -> list[str]:
    """Return the names of a Slurm host list: ``gpu[1-3,7],login`` are five."""
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", hosts):
        pieces = _RANGE.split(part)
        spans = [_numbers(piece) if index % 2 else [piece] for index, piece in enumerate(pieces)]
        names += ["".join(found) for found in product(*spans)]
    return names


def _numbers(listed: str) -> list[str]:
    found: list[str] = []
    for span in listed.split(","):
        first, _, last = span.partition("-")
        found += [
            str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)
        ]
    return found


def _devices(partition: Mapping[str, Any]) -> set[str]:
    words = " ".join(f"{key}={value}" for key, value in partition.items())
    return {name.lower() for name in _GRES.findall(words)} | (
        {"gpu"} if re.search("PerGPU", words, re.IGNORECASE) else set()
    )


def accounts(site: Site) -> Iterator[Problem]:
    """Find numbers of wallets' accounts that are the system's, or overlap."""
    first = site.first()
    names = ("gridstead_wallet_gid", "gridstead_wallet_uid_min", "gridstead_wallet_uid_max")
    numbers = [first.number(name) for name in names]
    for name, number in zip(names, numbers, strict=True):
        if number is None or number < FIRST_FREE_ID:
            yield Problem(
                where=name,
                found=f'"{first.value(name)}"',
                allowed=f"a whole number of at least {FIRST_FREE_ID}; those below are the system's",
                about=frozenset(names),
            )
            return
    gid, lowest, highest = numbers
    if lowest >= highest:
        yield Problem(
            where="gridstead_wallet_uid_min",
            found=f"{lowest}, and gridstead_wallet_uid_max is {highest}",
            allowed="the first below the second",
            about=frozenset(names),
        )
    elif gid >= lowest:
        yield Problem(
            where="gridstead_wallet_gid",
            found=f"{gid}, and wallets' uids go from {lowest} to {highest}",
            allowed=f"a number below {lowest}: no wallet may have the number of their group",
            about=frozenset(names),
        )
