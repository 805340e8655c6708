# SPDX-License-Identifier: Apache-2.0
"""Parse the topology file, which lists the hosts of a lab. Pure.

A topology file is JSON with the keys ``hosts`` (name -> groups, memory_mb, cores, job_cgroups),
``groups`` (name -> child groups) and, optionally, ``network`` (an IPv4 /24) and ``image``
(``prepared`` or ``plain``). The hosts get their addresses in the order of the file.
"""

import hashlib
import ipaddress
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gridstead_lab.errors import InvalidTopology

MAX_HOSTS = 200
MIN_MEMORY_MB = 256
MIN_CORES = 0.1
NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
_GROUP = re.compile(r"[a-z][a-z0-9_]{0,39}")
IMAGES = ("prepared", "plain")
_HOST_KEYS = {"groups", "memory_mb", "cores", "job_cgroups"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host of the topology file.

    Units: memory in MiB, cores in seconds of CPU time per second (may be a fraction).
    ``job_cgroups``: the host manages the limits of its own jobs (a Slurm compute node).
    """

    name: str
    groups: tuple[str, ...]
    memory_mb: int
    cores: float
    job_cgroups: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """All hosts in the order of their addresses, the groups of groups, and the image.

    ``image``: hosts of a ``prepared`` image have the packages that the roles install. Hosts of a
    ``plain`` image have a bare Debian.
    """

    hosts: tuple[Host, ...]
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    network: str | None = None
    image: str = IMAGES[0]

    def names(self) -> tuple[str, ...]:
        """Return the host names in order."""
        return tuple(host.name for host in self.hosts)

    def digest(self) -> str:
        """Return a short text that differs when anything in the topology differs."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    def members(self) -> dict[str, list[str]]:
        """Return group name -> host names, for groups that contain hosts directly."""
        members: dict[str, list[str]] = {}
        for _, children in self.groups:
            for child in children:
                members[child] = []
        for host in self.hosts:
            for group in host.groups:
                members.setdefault(group, []).append(host.name)
        return members


def parse(text: str) -> Topology:
    """Return the topology in the text of a file.

    Raises:
        InvalidTopology: If it is not JSON, a key is unknown, or a value is out of range.
    """
    try:
        raw = json.loads(text)
    except ValueError as err:
        message = f"topology is not JSON: {err}"
        raise InvalidTopology(message) from err
    _require(isinstance(raw, dict), "topology is not an object")
    _no_others(raw, {"hosts", "groups", "network", "image"}, "topology")
    hosts = raw.get("hosts")
    _require(isinstance(hosts, dict) and bool(hosts), "topology has no hosts")
    image = raw.get("image", IMAGES[0])
    _require(image in IMAGES, f"image must be {' or '.join(IMAGES)}, not {image!r}")
    _require(len(hosts) <= MAX_HOSTS, f"topology has {len(hosts)} hosts, at most {MAX_HOSTS}")
    return Topology(
        hosts=tuple(_host(name, entry) for name, entry in hosts.items()),
        groups=_groups(raw.get("groups", {})),
        network=_network(raw.get("network")),
        image=image,
    )


def subset(topology: Topology, names: Iterable[str]) -> Topology:
    """Return the topology with only the named hosts and with all groups, even empty ones.

    Raises:
        InvalidTopology: If a name is not in the topology, or no name is given.
    """
    chosen = set(names)
    unknown = sorted(chosen - set(topology.names()))
    _require(not unknown, f"topology has no host {', '.join(unknown)}")
    _require(bool(chosen), "no hosts chosen")
    return Topology(
        hosts=tuple(host for host in topology.hosts if host.name in chosen),
        groups=topology.groups,
        network=topology.network,
        image=topology.image,
    )


def _host(name: str, entry: object) -> Host:
    where = f"host {name!r}"
    _require(NAME.fullmatch(name) is not None, f"{where}: name must match {NAME.pattern}")
    if not isinstance(entry, dict):
        message = f"{where}: not an object"
        raise InvalidTopology(message)
    _no_others(entry, _HOST_KEYS, where)
    groups = _names(entry.get("groups", []), _GROUP, f"{where}: groups")
    return Host(
        name=name,
        groups=groups,
        memory_mb=int(_number(entry, "memory_mb", MIN_MEMORY_MB, where)),
        cores=float(_number(entry, "cores", MIN_CORES, where)),
        job_cgroups=_flag(entry, "job_cgroups", where),
    )


def _number(entry: dict[str, object], key: str, least: float, where: str) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        message = f"{where}: {key} must be a number of at least {least}, not {value!r}"
        raise InvalidTopology(message)
    return value


def _flag(entry: dict[str, object], key: str, where: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        message = f"{where}: {key} must be true or false, not {value!r}"
        raise InvalidTopology(message)
    return value


def _groups(raw: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(raw, dict):
        message = "groups: not an object"
        raise InvalidTopology(message)
    for name in raw:
        _require(_GROUP.fullmatch(name) is not None, f"group {name!r}: name not allowed")
    groups = []
    for name, children in raw.items():
        names = _names(children, _GROUP, f"group {name!r}")
        groups.append((name, names))
    return tuple(groups)


def _network(raw: object) -> str | None:
    if raw is None:
        return None
    try:
        network = ipaddress.IPv4Network(str(raw))
    except ValueError as err:
        message = f"network: {err}"
        raise InvalidTopology(message) from err
    _require(network.prefixlen == 24, f"network: must be a /24, not {raw}")
    return str(network)


def _names(raw: object, pattern: re.Pattern[str], where: str) -> tuple[str, ...]:
    is_valid = isinstance(raw, list) and all(
        isinstance(item, str) and pattern.fullmatch(item) for item in raw
    )
    if not is_valid:
        message = f"{where}: must be a list of names matching {pattern.pattern}, not {raw!r}"
        raise InvalidTopology(message)
    return tuple(raw)


def _no_others(raw: dict[str, object], known: set[str], where: str) -> None:
    others = sorted(set(raw) - known)
    _require(
        not others, f"{where}: unknown key {', '.join(others)}; known: {', '.join(sorted(known))}"
    )


def _require(is_valid: bool, message: str) -> None:  # noqa: FBT001
    if not is_valid:
        raise InvalidTopology(message)
