# SPDX-License-Identifier: Apache-2.0
"""Checks the nodes, devices and partitions of Slurm, and the range of uids for wallets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from . import keys
from .diagnostic import Diagnostic
from .inventory import Host, Inventory, to_int

LOCAL_STATE = "/var/lib/slurm/slurmctld"  # the default StateSaveLocation of Debian's slurmctld
FIRST_FREE_ID = 65536  # the system reserves all lower ids

_RANGE = re.compile(r"\[([0-9,-]+)\]")  # such as [1-3,7] in a host list
_GRES = re.compile(r"gres/([a-z0-9_]+)", re.IGNORECASE)  # such as gres/gpu=2
# The required parameters of a node: name, unit, and the command that prints the value.
_REQUIRED = (("CPUs", "", "lscpu"), ("RealMemory", " of MB", "free --mebi"))


def check_nodes(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find compute hosts whose ``slurm_node`` is missing, incomplete or not valid in Slurm."""
    for host in inventory.members("slurm_compute"):
        node = host.value("slurm_node")
        where = f"host {host.name}, slurm_node"
        affected_names = frozenset({"slurm_node", "slurm_nodes"})
        if not isinstance(node, Mapping):
            yield Diagnostic(
                where=where,
                fault="missing" if node is None else f"{node!r}",
                allowed="a table with CPUs and RealMemory (MB)",
                affected_names=affected_names,
            )
            continue
        for key, unit, command in _REQUIRED:
            number = to_int(node.get(key))
            if number is None or number <= 0:
                yield Diagnostic(
                    where=f"{where}.{key}",
                    fault=f'"{node[key]}"' if key in node else "missing",
                    allowed=f"an integer{unit} above 0, as {command} prints it on the host,"
                    " or slurmd -C if Slurm is installed",
                    affected_names=affected_names,
                )
        yield from keys.check_names(where, node, keys.known_parameters(inventory, "node"))
        yield from _check_cores(where, node)


def _check_cores(where: str, node: Mapping[str, Any]) -> Iterator[Diagnostic]:
    cpus = to_int(node.get("CPUs"))
    sockets = to_int(node.get("Sockets"))
    cores_per_socket = to_int(node.get("CoresPerSocket"))
    threads_per_core = to_int(node.get("ThreadsPerCore"))
    if cpus and sockets and cores_per_socket and threads_per_core:
        cores = sockets * cores_per_socket
        threads = cores * threads_per_core
        if cpus not in {cores, threads}:
            yield Diagnostic(
                where=f"{where}.CPUs",
                fault=f"{cpus}, but the node has {sockets} sockets with {cores_per_socket} cores"
                f" each and {threads_per_core} threads per core",
                allowed=f"{threads}, or {cores} for one CPU per core",
            )


def check_state_directories(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find a StateSaveLocation that the two controllers do not share."""
    if not inventory.members("slurm_backup_controller"):
        return
    directories, descriptions = set(), []
    for host in inventory.members("slurm_controller", "slurm_backup_controller"):
        configured_directory = host.value("slurm_config", {}).get("StateSaveLocation")
        directory = configured_directory or host.value("slurm_state_directory")
        directories.add(directory)
        descriptions.append(f'"{directory}" on {host.name}')
    if len(directories) > 1 or LOCAL_STATE in directories:
        yield Diagnostic(
            where="slurm_state_directory",
            fault=", ".join(descriptions),
            allowed="one folder on storage that both controllers mount, because group"
            " slurm_backup_controller has a host",
            affected_names=frozenset({"slurm_state_directory"}),
        )


def check_devices(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find devices (Gres) that are missing in ``slurm_node``, ``slurm_gres`` or GresTypes.

    Also find lines of ``slurm_gres`` with unknown nodes.
    """
    controllers = inventory.members("slurm_controller")
    if not controllers:
        return
    controller = controllers[0]
    config = controller.value("slurm_config_default", {}) | controller.value("slurm_config", {})
    lines = controller.value("slurm_gres", [])
    described_devices = set()
    for line in lines:
        default = "gpu" if "AutoDetect" in line else ""
        described_devices.add(str(line.get("Name", default)))
    types = str(config.get("GresTypes", ""))
    names: set[str] = set()
    declared_devices: set[str] = set()
    for host in inventory.members("slurm_compute"):
        names.add(host.name)
        declared_devices |= gres(host)
        yield from _check_gres(host, types, described_devices)
    yield from _check_node_names(lines, names)
    for name in sorted(described_devices - declared_devices):
        yield Diagnostic(
            where="slurm_gres",
            fault=f'a line for "{name}", which no compute host declares',
            allowed=f"Gres: {name}:COUNT in slurm_node of a compute host, or no line for {name}",
        )


def _check_gres(host: Host, types: str, described_devices: set[str]) -> Iterator[Diagnostic]:
    where = f"host {host.name}, slurm_node.Gres"
    for name in sorted(gres(host)):
        # ``types`` is a text such as "gpu,mps", or a list as text, such as "['gpu', 'mps']".
        if name not in re.split(r"[, \[\]']+", types):
            allowed = f"a device in GresTypes of slurm_config_site, which is {types}"
            yield Diagnostic(where=where, fault=f'unknown device "{name}"', allowed=allowed)
        elif name not in described_devices:
            allowed = f"a line for {name} in slurm_gres, with its File or AutoDetect"
            fault = f'no line of slurm_gres describes "{name}"'
            yield Diagnostic(where=where, fault=fault, allowed=allowed)


def _check_node_names(
    lines: list[Mapping[str, Any]], compute_hosts: set[str]
) -> Iterator[Diagnostic]:
    for line in lines:
        nodes_of_line = expand_host_list(str(line.get("NodeName") or ""))
        unknown_nodes = [node for node in nodes_of_line if node not in {"", *compute_hosts}]
        if unknown_nodes:
            node_list = ", ".join(unknown_nodes)
            yield Diagnostic(
                where="slurm_gres",
                fault=f"NodeName {line['NodeName']}: {node_list} is not a compute host",
                allowed=f"some of {', '.join(sorted(compute_hosts))}, as in gpu[1-2]",
            )


def gres(host: Host) -> set[str]:
    """Return the names of the devices that a compute host declares."""
    node = host.value("slurm_node")
    if not isinstance(node, Mapping):
        return set()
    names = set()
    for device in str(node.get("Gres", "")).split(","):
        name, _, _ = device.partition(":")
        names.add(name.strip())
    return names - {""}


def check_partitions(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find mistakes in the partitions.

    These are unknown nodes, devices and parameters, a second default partition, and an unknown
    partition for the jobs of wallets.
    """
    controllers = inventory.members("slurm_controller")
    table = controllers[0].value("slurm_partitions") if controllers else None
    if not isinstance(table, Mapping):
        return
    defaults: list[str] = []
    for name, partition in table.items():
        where = f"slurm_partitions.{name}"
        if not isinstance(partition, Mapping):
            allowed = "parameters by name, such as {Nodes: ALL}"
            yield Diagnostic(where=where, fault=f'"{partition}"', allowed=allowed)
            continue
        yield from _check_partition(where, partition, inventory.members("slurm_compute"))
        yield from keys.check_names(where, partition, keys.known_parameters(inventory, "partition"))
        if str(partition.get("Default", "NO")).upper() in {"YES", "TRUE"}:
            defaults.append(name)
    if len(defaults) > 1:
        yield Diagnostic(
            where="slurm_partitions",
            fault=f"partitions {', '.join(defaults)} all have Default=YES",
            allowed="one default partition",
        )
    yield from _check_wallets_partition(controllers[0].value("slurm_wallets"), table)


def _check_wallets_partition(wallets: Any, table: Mapping[str, Any]) -> Iterator[Diagnostic]:
    partition = wallets.get("partition") if isinstance(wallets, Mapping) else None
    if partition and partition not in table:
        yield Diagnostic(
            where="slurm_wallets.partition",
            fault=f'"{partition}" is not a partition; the jobs of wallets need one',
            allowed=f"one of slurm_partitions: {', '.join(table)}",
        )


def _check_partition(
    where: str, partition: Mapping[str, Any], compute_hosts: list[Host]
) -> Iterator[Diagnostic]:
    hosts = {host.name: host for host in compute_hosts}
    nodes = expand_host_list(str(partition.get("Nodes", "ALL")))
    named_nodes = [node for node in nodes if node != "ALL"]
    declared_devices: set[str] = set()
    for node in named_nodes or hosts:
        if node in hosts:
            declared_devices |= gres(hosts[node])
        else:
            fault, allowed = f"{node} is not a compute host", f"ALL, or some of {', '.join(hosts)}"
            yield Diagnostic(where=f"{where}.Nodes", fault=fault, allowed=allowed)
    for device in sorted(_devices(partition) - declared_devices):
        yield Diagnostic(
            where=where,
            fault=f'uses device "{device}", but no node of the partition declares it',
            allowed=f"Gres: {device}:COUNT in slurm_node of one of its nodes",
        )


def expand_host_list(hosts: str) -> list[str]:
    """Return the host names of a Slurm host list.

    >>> expand_host_list("gpu[1-3,7],login")
    ['gpu1', 'gpu2', 'gpu3', 'gpu7', 'login']
    """
    names: list[str] = []
    # Split at commas that are not in brackets.
    for part in re.split(r",(?![^\[]*\])", hosts):
        # _RANGE.split returns the texts inside brackets at odd indexes.
        choices = []
        for index, piece in enumerate(_RANGE.split(part)):
            is_range = index % 2 == 1
            choices.append(_expand_numbers(piece) if is_range else [piece])
        names += map("".join, product(*choices))
    return names


def _expand_numbers(ranges: str) -> list[str]:
    numbers: list[str] = []
    for number_range in ranges.split(","):
        first, _, last = number_range.partition("-")
        for number in range(int(first), int(last or first) + 1):
            digits = str(number).zfill(len(first))
            numbers.append(digits)
    return numbers


def _devices(partition: Mapping[str, Any]) -> set[str]:
    """Return the names of the devices that the parameters of a partition mention."""
    text = ""
    for key, value in partition.items():
        text += f" {key}={value}"
    names = set(_GRES.findall(text.lower()))
    if re.search("PerGPU", text, re.IGNORECASE):
        names.add("gpu")
    return names


def check_wallet_ids(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find mistakes in the uids and the gid of wallets.

    These are ids that the system reserves, an empty range of uids, and a gid that is not below the
    range.
    """
    host = inventory.first()
    names = ("gridstead_wallet_gid", "gridstead_wallet_uid_min", "gridstead_wallet_uid_max")
    affected_names = frozenset(names)
    numbers = []
    for name in names:
        number = host.number(name)
        if number is None or number < FIRST_FREE_ID:
            yield Diagnostic(
                where=name,
                fault=f'"{host.value(name)}"',
                allowed=f"an integer of at least {FIRST_FREE_ID}; the system reserves lower ids",
                affected_names=affected_names,
            )
            return
        numbers.append(number)
    gid, lowest, highest = numbers
    if lowest >= highest:
        yield Diagnostic(
            where="gridstead_wallet_uid_min",
            fault=f"{lowest}, but gridstead_wallet_uid_max is {highest}",
            allowed="a minimum below the maximum",
            affected_names=affected_names,
        )
    elif gid >= lowest:
        yield Diagnostic(
            where="gridstead_wallet_gid",
            fault=f"{gid}, but the uids of wallets are from {lowest} to {highest}",
            allowed=f"a number below {lowest}; the gid of the wallets must differ from their uids",
            affected_names=affected_names,
        )
