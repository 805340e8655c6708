# SPDX-License-Identifier: Apache-2.0
"""What the control plane's services would refuse of their settings, and ports that two programs of
one host claim.

The settings are made as role control_plane makes them, and the services' own models read them.
"""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible.errors import AnsibleError

from gridstead.config import SERVICES, Service, Settings, problems
from inventory_check.problem import Problem
from inventory_check.roles import uncomputed
from inventory_check.site import CHECKOUT, Host, Site

_VARIABLE = re.compile(r"\s*\{\{ (\w+)\b")
_UDP = {"report_listen"}
_PORT = re.compile(r"[0-9]+$")
# What listens beside the control plane: group, program, first and last port.
PROGRAMS = (
    ("all", "sshd", 22, 22),
    ("slurm_controller", "slurmctld", 6817, 6817),
    ("slurm_backup_controller", "slurmctld", 6817, 6817),
    ("slurm_compute", "slurmd", 6818, 6818),
    ("slurm_accounting", "slurmdbd", 6819, 6819),
    ("slurm_accounting", "MariaDB", 3306, 3306),
    ("directory", "389ds", 636, 636),
    ("storage", "MooseFS", 9419, 9422),
    ("storage", "NFS", 2049, 2049),
    # On the directory's host it leaves 636 alone.
    ("gateway", "Traefik", 80, 80),
    ("gateway", "Traefik", 443, 443),
)
# The same, where a variable says the port, alone or after an address.
CHOSEN = (
    ("gateway", "Traefik", "traefik_grpc_port"),
    ("gateway", "Traefik", "traefik_api_port"),
    ("gateway", "Traefik", "traefik_metrics_listen"),
    ("devnet", "devnet", "devnet_port"),
    ("cvmfs_replica", "gridstead cvmfs", "cvmfs_listen"),
)

spec = importlib.util.spec_from_file_location(
    "toml", CHECKOUT / "roles/control_plane/filter_plugins/toml.py"
)
_toml = importlib.util.module_from_spec(spec)
spec.loader.exec_module(_toml)


@dataclass
class Read:
    """What came of reading the settings of all services.

    Args:
        problems: What their models refuse; one for each value, however many services have it.
        models: The settings of the others, by host and service.
    """

    problems: list[Problem] = field(default_factory=list)
    models: dict[str, dict[str, Service]] = field(default_factory=lambda: defaultdict(dict))


def read(site: Site, reported: frozenset[str]) -> Read:
    """Return what the services make of their settings.

    Args:
        site: The inventory.
        reported: What is known to be wrong; settings that need it are left out.
    """
    done = Read()
    refused: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host in site.hosts.values():
        written = host.variables.get("control_plane_settings", {})
        for service in host.value("control_plane_services", []):
            if service not in SERVICES:
                allowed = ", ".join(SERVICES)
                where = f"host {host.name}, control_plane_services"
                done.problems.append(
                    Problem(where=where, found=f'unknown service "{service}"', allowed=allowed)
                )
            elif isinstance(written, Mapping) and not isinstance(written.get(service, {}), Mapping):
                refused[f"control_plane_settings.{service}", "is no table"].append(service)
            elif isinstance(written, Mapping) and service in written:
                for place, why in _load(
                    host, service, written[service], reported, done.models[host.name]
                ):
                    refused[place, why].append(service)
    for (place, why), services in refused.items():
        told = f"{why} (says {', '.join(sorted(set(services)))})"
        done.problems.append(
            Problem(where=place, found=told, allowed="docs/reference/settings.md has every setting")
        )
    return done


def _load(
    host: Host,
    service: str,
    written: Mapping[str, Any],
    reported: frozenset[str],
    models: dict[str, Service],
) -> Iterator[tuple[str, str]]:
    """Yield what a service refuses, and where that stands; or keep its settings."""
    table, left_out = {}, set()
    for key, value in written.items():
        needs = host.mentions(value)
        try:
            made = None if needs & reported else host.templar.template(value)
            table[key] = tomllib.loads(_toml.to_toml({key: made})).get(key)
        except AnsibleError as error:
            yield from (
                (_origin(service, written, str(key)), why) for why in uncomputed(host, needs, error)
            )
        if table.get(key) is None:
            left_out.add(key)
    table = {key: value for key, value in table.items() if key not in left_out}
    found = [
        one for one in problems(SERVICES[service], table) if one[0].split(".")[0] not in left_out
    ]
    yield from ((_origin(service, written, place), why) for place, why in found)
    if not found and not left_out & {
        key for key, one in SERVICES[service].model_fields.items() if one.is_required()
    }:
        models[service] = SERVICES[service].model_validate(table)


def _origin(service: str, written: Any, place: str) -> str:
    """Return the variable that a setting comes from, with the rest of its place."""
    keys = place.split(".")
    for index, key in enumerate(keys):
        written = written.get(key) if isinstance(written, Mapping) else None
        variable = _VARIABLE.match(written) if isinstance(written, str) else None
        if variable:
            return ".".join([variable[1], *keys[index + 1 :]])
    return f"control_plane_settings.{service}.{place}"


def ports(site: Site, read_: Read) -> Iterator[Problem]:
    """Find ports that two programs of a host would listen on."""
    for name, host in site.hosts.items():
        claims: dict[tuple[str, int], list[str]] = defaultdict(list)
        for port, program in _beside(
            host, {group for group, hosts in site.groups.items() if name in hosts}
        ):
            claims["tcp", port].append(program)
        for service, model in read_.models[name].items():
            for kind, endpoint, place in _listening(model, ""):
                claims[kind, int(endpoint.rpartition(":")[2])].append(f"{service} ({place})")
        for (kind, port), programs in claims.items():
            if len(set(programs)) > 1:
                where = f"host {name}, port {port}/{kind}"
                yield Problem(
                    where=where,
                    found=f"claimed by {' and by '.join(programs)}",
                    allowed="a port for each",
                )


def _beside(host: Host, groups: set[str]) -> Iterator[tuple[int, str]]:
    """Yield ports of what listens beside the control plane, and its programs."""
    for group, program, first, last in PROGRAMS:
        if group in groups:
            yield from ((port, program) for port in range(first, last + 1))
    if "cvmfs_replica" in groups and host.value("cvmfs_provider") == "cern":
        yield 80, "Apache (cvmfs_provider)"
        groups = groups - {"cvmfs_replica"}
    for group, program, variable in CHOSEN:
        # Another check tells if a variable says no port.
        if group in groups and (port := _PORT.search(str(host.value(variable)))):
            yield int(port[0]), f"{program} ({variable})"


def _listening(model: Settings, place: str) -> Iterator[tuple[str, str, str]]:
    """Yield protocol, host:port and place of each setting that a service listens at."""
    for name, value in model:
        if isinstance(value, Settings):
            yield from _listening(value, f"{place}{name}.")
        elif value and name.endswith("listen"):
            yield "udp" if name in _UDP else "tcp", value, f"{place}{name}"
