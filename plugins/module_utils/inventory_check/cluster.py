# SPDX-License-Identifier: Apache-2.0
"""Checks Slurm's nodes, devices and partitions, and the range of uids for wallets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from . import keys
from .diagnostic import Diagnostic
from .inventory import Host, Inventory, whole

OWN_DISK = "/var/lib/slurm/slurmctld"  # the default StateSaveLocation of Debian's slurmctld
FIRST_FREE_ID = 65536  # the system reserves lower ids

_RANGE = re.compile(r"\[([0-9,-]+)\]")
_GRES = re.compile(r"gres/([a-z0-9_]+)", re.IGNORECASE)
_REQUIRED = (("CPUs", "", "lscpu"), ("RealMemory", " of MB", "free --mebi"))


def nodes(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find compute hosts whose ``slurm_node`` is missing, incomplete or unknown to Slurm."""
    for host in inventory.members("slurm_compute"):
        node = host.value("slurm_node")
        where = f"host {host.name}, slurm_node"
        about = frozenset({"slurm_node", "slurm_nodes"})
        if not isinstance(node, Mapping):
            yield Diagnostic(
                where=where,
                seen="missing" if node is None else f"{node!r}",
                allowed="a table with CPUs and RealMemory (MB)",
                about=about,
            )
            continue
        for key, unit, command in _REQUIRED:
            if (whole(node.get(key)) or 0) <= 0:
                yield Diagnostic(
                    where=f"{where}.{key}",
                    seen=f'"{node[key]}"' if key in node else "missing",
                    allowed=f"an integer{unit} above 0, as {command} prints it on the host,"
                    " later slurmd -C",
                    about=about,
                )
        yield from keys.unknown(where, node, keys.names(inventory, "node"))
        yield from _cores(where, node)


def _cores(where: str, node: Mapping[str, Any]) -> Iterator[Diagnostic]:
    shape = [whole(node.get(key)) for key in ("Sockets", "CoresPerSocket", "ThreadsPerCore")]
    cpus = whole(node.get("CPUs"))
    if cpus and all(shape):
        sockets, cores, threads = shape
        if cpus not in {sockets * cores, sockets * cores * threads}:
            yield Diagnostic(
                where=f"{where}.CPUs",
                seen=f"{cpus} with {sockets} sockets of {cores} cores of {threads} threads",
                allowed=f"{sockets * cores * threads}, or {sockets * cores} for one CPU per core",
            )


def state(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find two controllers that do not share one StateSaveLocation."""
    if not inventory.members("slurm_backup_controller"):
        return
    places, listed = set(), []
    for host in inventory.members("slurm_controller", "slurm_backup_controller"):
        configured = host.value("slurm_config", {}).get("StateSaveLocation")
        place = configured or host.value("slurm_state_directory")
        places.add(place)
        listed.append(f'"{place}" on {host.name}')
    if len(places) > 1 or OWN_DISK in places:
        yield Diagnostic(
            where="slurm_state_directory",
            seen=", ".join(listed),
            allowed="with a host in slurm_backup_controller, one folder on storage that both"
            " controllers mount",
            about=frozenset({"slurm_state_directory"}),
        )


def devices(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find devices (Gres) that one variable declares and another does not have."""
    controllers = inventory.members("slurm_controller")
    if not controllers:
        return
    controller = controllers[0]
    config = controller.value("slurm_config_default", {}) | controller.value("slurm_config", {})
    lines = controller.value("slurm_gres", [])
    described = set()
    for line in lines:
        default = "gpu" if "AutoDetect" in line else ""
        described.add(str(line.get("Name", default)))
    types = str(config.get("GresTypes", ""))
    names: set[str] = set()
    declared: set[str] = set()
    for host in inventory.members("slurm_compute"):
        names.add(host.name)
        declared |= gres(host)
        yield from _undescribed(host, types, described)
    yield from _unknown_nodes(lines, names)
    for name in sorted(described - declared):
        yield Diagnostic(
            where="slurm_gres",
            seen=f'a line for "{name}", which no compute host declares',
            allowed=f"Gres: {name}:COUNT in slurm_node of a compute host, or no such line",
        )


def _undescribed(host: Host, types: str, described: set[str]) -> Iterator[Diagnostic]:
    where = f"host {host.name}, slurm_node.Gres"
    for name in sorted(gres(host)):
        if name not in re.split(r"[, \[\]']+", types):
            allowed = f"one of GresTypes in slurm_config_site, which are {types}"
            yield Diagnostic(where=where, seen=f'unknown device "{name}"', allowed=allowed)
        elif name not in described:
            allowed = f"a line for {name} in slurm_gres, with its File or AutoDetect"
            fault = f'no line of slurm_gres describes "{name}"'
            yield Diagnostic(where=where, seen=fault, allowed=allowed)


def _unknown_nodes(lines: list[Mapping[str, Any]], known: set[str]) -> Iterator[Diagnostic]:
    for line in lines:
        nodes_of_line = expanded(str(line.get("NodeName") or ""))
        unknown = [node for node in nodes_of_line if node not in {"", *known}]
        if unknown:
            yield Diagnostic(
                where="slurm_gres",
                seen=f"NodeName {line['NodeName']}: {', '.join(unknown)} is not a compute host",
                allowed=f"some of {', '.join(sorted(known))}, as in gpu[1-2]",
            )


def gres(host: Host) -> set[str]:
    """Return the names of the devices that a compute host declares."""
    node = host.value("slurm_node")
    listed = str(node.get("Gres", "")) if isinstance(node, Mapping) else ""
    names = set()
    for device in listed.split(","):
        name, _, _ = device.partition(":")
        names.add(name.strip())
    return names - {""}


def partitions(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find partitions with unknown nodes or devices, and more than one default partition."""
    controllers = inventory.members("slurm_controller")
    table = controllers[0].value("slurm_partitions") if controllers else None
    if not isinstance(table, Mapping):
        return
    defaults: list[str] = []
    for name, partition in table.items():
        where = f"slurm_partitions.{name}"
        if not isinstance(partition, Mapping):
            allowed = "parameters by name, such as {Nodes: ALL}"
            yield Diagnostic(where=where, seen=f'"{partition}"', allowed=allowed)
            continue
        yield from _partition(where, partition, inventory.members("slurm_compute"))
        yield from keys.unknown(where, partition, keys.names(inventory, "partition"))
        if str(partition.get("Default", "NO")).upper() in {"YES", "TRUE"}:
            defaults.append(name)
    if len(defaults) > 1:
        yield Diagnostic(
            where="slurm_partitions",
            seen=f"Default in {', '.join(defaults)}",
            allowed="Default in one",
        )
    yield from _wallets_partition(controllers[0].value("slurm_wallets"), table)


def _wallets_partition(wallets: Any, table: Mapping[str, Any]) -> Iterator[Diagnostic]:
    used = wallets.get("partition") if isinstance(wallets, Mapping) else None
    if used and used not in table:
        yield Diagnostic(
            where="slurm_wallets.partition",
            seen=f'"{used}", the partition of the wallets\' jobs, is not a partition',
            allowed=f"one of slurm_partitions: {', '.join(table)}",
        )


def _partition(
    where: str, partition: Mapping[str, Any], compute_hosts: list[Host]
) -> Iterator[Diagnostic]:
    hosts = {host.name: host for host in compute_hosts}
    listed = [node for node in expanded(str(partition.get("Nodes", "ALL"))) if node != "ALL"]
    declared: set[str] = set()
    for node in listed or hosts:
        if node in hosts:
            declared |= gres(hosts[node])
        else:
            fault, allowed = f"{node} is not a compute host", f"ALL, or some of {', '.join(hosts)}"
            yield Diagnostic(where=f"{where}.Nodes", seen=fault, allowed=allowed)
    for device in sorted(_devices(partition) - declared):
        yield Diagnostic(
            where=where,
            seen=f'names device "{device}", which none of its nodes declares',
            allowed=f"Gres: {device}:COUNT in slurm_node of one of its hosts",
        )


def expanded(hosts: str) -> list[str]:
    """Return the names of a Slurm host list: ``gpu[1-3,7],login`` has five."""
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", hosts):
        # The texts in brackets have the odd indexes.
        choices = []
        for index, piece in enumerate(_RANGE.split(part)):
            is_range = index % 2 == 1
            choices.append(_numbers(piece) if is_range else [piece])
        names += map("".join, product(*choices))
    return names


def _numbers(listed: str) -> list[str]:
    numbers: list[str] = []
    for span in listed.split(","):
        first, _, last = span.partition("-")
        for number in range(int(first), int(last or first) + 1):
            digits = str(number).zfill(len(first))
            numbers.append(digits)
    return numbers


def _devices(partition: Mapping[str, Any]) -> set[str]:
    words = ""
    for key, value in partition.items():
        words += f" {key}={value}"
    devices_named = set(_GRES.findall(words.lower()))
    if re.search("PerGPU", words, re.IGNORECASE):
        devices_named.add("gpu")
    return devices_named


def accounts(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find uids and gids of wallets that the system reserves, or that overlap."""
    host = inventory.first()
    names = ("gridstead_wallet_gid", "gridstead_wallet_uid_min", "gridstead_wallet_uid_max")
    about = frozenset(names)
    numbers = []
    for name in names:
        number = host.number(name)
        if number is None or number < FIRST_FREE_ID:
            yield Diagnostic(
                where=name,
                seen=f'"{host.value(name)}"',
                allowed=f"an integer of at least {FIRST_FREE_ID}; the system reserves lower ids",
                about=about,
            )
            return
        numbers.append(number)
    gid, lowest, highest = numbers
    if lowest >= highest:
        yield Diagnostic(
            where="gridstead_wallet_uid_min",
            seen=f"{lowest}, but gridstead_wallet_uid_max is {highest}",
            allowed="a minimum below the maximum",
            about=about,
        )
    elif gid >= lowest:
        yield Diagnostic(
            where="gridstead_wallet_gid",
            seen=f"{gid}, but the uids of wallets are from {lowest} to {highest}",
            allowed=f"a number below {lowest}: no uid of a wallet may equal the gid of their group",
            about=about,
        )
