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
        document = json.loads(text)
    except ValueError as err:
        message = f"topology is not JSON: {err}"
        raise InvalidTopology(message) from err
    _require(isinstance(document, dict), "topology is not an object")
    _require_known_keys(document, {"hosts", "groups", "network", "image"}, "topology")
    hosts = document.get("hosts")
    _require(isinstance(hosts, dict) and bool(hosts), "topology has no hosts")
    image = document.get("image", IMAGES[0])
    _require(image in IMAGES, f"image must be {' or '.join(IMAGES)}, not {image!r}")
    _require(len(hosts) <= MAX_HOSTS, f"topology has {len(hosts)} hosts, at most {MAX_HOSTS}")
    return Topology(
        hosts=tuple(_host(name, host_fields) for name, host_fields in hosts.items()),
        groups=_groups(document.get("groups", {})),
        network=_network(document.get("network")),
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


def _host(name: str, host_fields: object) -> Host:
    subject = f"host {name!r}"
    _require(NAME.fullmatch(name) is not None, f"{subject}: name must match {NAME.pattern}")
    if not isinstance(host_fields, dict):
        message = f"{subject}: not an object"
        raise InvalidTopology(message)
    _require_known_keys(host_fields, _HOST_KEYS, subject)
    groups = _names(host_fields.get("groups", []), _GROUP, f"{subject}: groups")
    return Host(
        name=name,
        groups=groups,
        memory_mb=int(_number(host_fields, "memory_mb", MIN_MEMORY_MB, subject)),
        cores=float(_number(host_fields, "cores", MIN_CORES, subject)),
        job_cgroups=_boolean(host_fields, "job_cgroups", subject),
    )


def _number(host_fields: dict[str, object], key: str, minimum: float, subject: str) -> float:
    number = host_fields.get(key)
    if isinstance(number, bool) or not isinstance(number, int | float) or number < minimum:
        message = f"{subject}: {key} must be a number of at least {minimum}, not {number!r}"
        raise InvalidTopology(message)
    return number


def _boolean(host_fields: dict[str, object], key: str, subject: str) -> bool:
    flag = host_fields.get(key, False)
    if not isinstance(flag, bool):
        message = f"{subject}: {key} must be true or false, not {flag!r}"
        raise InvalidTopology(message)
    return flag


def _groups(json_value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(json_value, dict):
        message = "groups: not an object"
        raise InvalidTopology(message)
    for name in json_value:
        _require(_GROUP.fullmatch(name) is not None, f"group {name!r}: name not allowed")
    groups = []
    for name, children in json_value.items():
        names = _names(children, _GROUP, f"group {name!r}")
        groups.append((name, names))
    return tuple(groups)


def _network(json_value: object) -> str | None:
    if json_value is None:
        return None
    try:
        network = ipaddress.IPv4Network(str(json_value))
    except ValueError as err:
        message = f"network: {err}"
        raise InvalidTopology(message) from err
    _require(network.prefixlen == 24, f"network: must be a /24, not {json_value}")
    return str(network)


def _names(json_value: object, pattern: re.Pattern[str], subject: str) -> tuple[str, ...]:
    is_valid = isinstance(json_value, list) and all(
        isinstance(name, str) and pattern.fullmatch(name) for name in json_value
    )
    if not is_valid:
        message = (
            f"{subject}: must be a list of names matching {pattern.pattern}, not {json_value!r}"
        )
        raise InvalidTopology(message)
    return tuple(json_value)


def _require_known_keys(json_object: dict[str, object], known_keys: set[str], subject: str) -> None:
    unknown_keys = sorted(set(json_object) - known_keys)
    _require(
        not unknown_keys,
        f"{subject}: unknown key {', '.join(unknown_keys)}; known: {', '.join(sorted(known_keys))}",
    )


def _require(is_valid: bool, message: str) -> None:  # noqa: FBT001
    if not is_valid:
        raise InvalidTopology(message)
