# SPDX-License-Identifier: Apache-2.0
"""The parser of the topology file, which lists the hosts of a lab.

A topology file is a JSON object with these keys:

- ``hosts``: by host name, an object with the keys groups, memory_mb, cores and job_cgroups
- ``groups``: by group name, a list of the group's child groups
- ``network`` (optional): an IPv4 /24
- ``image`` (optional): ``prepared`` or ``plain``

The hosts get their addresses in the order of the file.
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

    Attributes:
        memory_mb: The memory limit in MiB.
        cores: The CPU limit in seconds of CPU time per second. Fractions are allowed.
        job_cgroups: Whether the host may create cgroups, with which a Slurm node limits its jobs.
    """

    name: str
    groups: tuple[str, ...]
    memory_mb: int
    cores: float
    job_cgroups: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The hosts in the order of their addresses, the groups with their child groups, and the image.

    A ``prepared`` image contains the packages that the roles install. A ``plain`` image is a bare
    Debian.
    """

    hosts: tuple[Host, ...]
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    network: str | None = None
    image: str = IMAGES[0]

    def names(self) -> tuple[str, ...]:
        """Return the host names in the order of the addresses."""
        return tuple(host.name for host in self.hosts)

    def digest(self) -> str:
        """Return a short hash of the topology."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    def members(self) -> dict[str, list[str]]:
        """Return the names of the hosts that each group directly contains, by group name.

        A child group is included even if it contains no hosts.
        """
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
        InvalidTopology: If the text is not JSON, a key is unknown, or a value is out of range.
    """
    try:
        raw = json.loads(text)
    except ValueError as err:
        message = f"topology is not JSON: {err}"
        raise InvalidTopology(message) from err
    _require(isinstance(raw, dict), "topology is not an object")
    _require_known_keys(raw, {"hosts", "groups", "network", "image"}, "topology")
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
    """Return a copy of the topology with only the named hosts, but with all groups.

    Raises:
        InvalidTopology: If ``names`` is empty or contains an unknown name.
    """
    names_of_hosts = set(names)
    unknown_names = sorted(names_of_hosts - set(topology.names()))
    _require(not unknown_names, f"topology has no host {', '.join(unknown_names)}")
    _require(bool(names_of_hosts), "no hosts chosen")
    return Topology(
        hosts=tuple(host for host in topology.hosts if host.name in names_of_hosts),
        groups=topology.groups,
        network=topology.network,
        image=topology.image,
    )


def _host(name: str, entry: object) -> Host:
    subject = f"host {name!r}"
    _require(NAME.fullmatch(name) is not None, f"{subject}: name must match {NAME.pattern}")
    if not isinstance(entry, dict):
        message = f"{subject}: not an object"
        raise InvalidTopology(message)
    _require_known_keys(entry, _HOST_KEYS, subject)
    groups = _names(entry.get("groups", []), _GROUP, f"{subject}: groups")
    return Host(
        name=name,
        groups=groups,
        memory_mb=int(_number(entry, "memory_mb", MIN_MEMORY_MB, subject)),
        cores=float(_number(entry, "cores", MIN_CORES, subject)),
        job_cgroups=_boolean(entry, "job_cgroups", subject),
    )


def _number(entry: dict[str, object], key: str, minimum: float, subject: str) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < minimum:
        message = f"{subject}: {key} must be a number of at least {minimum}, not {value!r}"
        raise InvalidTopology(message)
    return value


def _boolean(entry: dict[str, object], key: str, subject: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        message = f"{subject}: {key} must be true or false, not {value!r}"
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


def _names(raw: object, pattern: re.Pattern[str], subject: str) -> tuple[str, ...]:
    is_valid = isinstance(raw, list) and all(
        isinstance(name, str) and pattern.fullmatch(name) for name in raw
    )
    if not is_valid:
        message = f"{subject}: must be a list of names matching {pattern.pattern}, not {raw!r}"
        raise InvalidTopology(message)
    return tuple(raw)


def _require_known_keys(raw: dict[str, object], known_keys: set[str], subject: str) -> None:
    unknown_keys = sorted(set(raw) - known_keys)
    _require(
        not unknown_keys,
        f"{subject}: unknown key {', '.join(unknown_keys)}; known: {', '.join(sorted(known_keys))}",
    )


def _require(is_valid: bool, message: str) -> None:  # noqa: FBT001
    if not is_valid:
        raise InvalidTopology(message)
