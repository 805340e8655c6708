# SPDX-License-Identifier: Apache-2.0
"""Checks the settings of the control plane's services, and ports that two programs of a host use.

The settings are rendered as role control_plane renders them, and validated by the models of the
services.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.gridstead.site.plugins.filter import toml as _toml

from gridstead.config import SERVICES, Service, Settings, key_of, problems

from .diagnostic import Diagnostic
from .inventory import Host, Inventory
from .roles import uncomputed

_VARIABLE = re.compile(r"\s*\{\{ (\w+)\b")
_UDP = {"report_listen"}
_PORT = re.compile(r"[0-9]+$")
# Other programs that listen on fixed ports: group, program, first and last port.
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
    # Traefik does not use 636 on the host of the directory.
    ("gateway", "Traefik", 80, 80),
    ("gateway", "Traefik", 443, 443),
)
# Programs whose port is in a variable, with or without an address: group, program, variable.
CHOSEN = (
    ("gateway", "Traefik", "traefik_grpc_port"),
    ("gateway", "Traefik", "traefik_api_port"),
    ("gateway", "Traefik", "traefik_metrics_listen"),
    ("devnet", "devnet", "devnet_port"),
    ("cvmfs_replica", "gridstead cvmfs", "cvmfs_listen"),
)


@dataclass
class Read:
    """The settings of all services.

    Args:
        diagnostics: The settings that the models reject; one for each value, even if several
            services have it.
        models: The valid settings, by host and service.
    """

    diagnostics: list[Diagnostic] = field(default_factory=list)
    models: dict[str, dict[str, Service]] = field(default_factory=lambda: defaultdict(dict))


def read(inventory: Inventory, reported: frozenset[str]) -> Read:
    """Return the settings of the services, validated.

    Args:
        inventory: The inventory.
        reported: Variables with a reported mistake; settings that need one of them are skipped.
    """
    result = Read()
    refused: dict[tuple[str, str], set[str]] = defaultdict(set)
    for host in inventory.hosts.values():
        tables = host.variables.get("control_plane_settings", {})
        for service in host.value("control_plane_services", []):
            if service not in SERVICES:
                result.diagnostics.append(
                    Diagnostic(
                        where=f"host {host.name}, control_plane_services",
                        seen=f'unknown service "{service}"',
                        allowed=", ".join(SERVICES),
                    )
                )
            elif isinstance(tables, Mapping) and service in tables:
                models = result.models[host.name]
                for place, fault in _load(host, service, tables[service], reported, models):
                    refused[place, fault].add(service)
    for (place, fault), services in refused.items():
        result.diagnostics.append(
            Diagnostic(
                where=place,
                seen=f"{fault} (reported by {', '.join(sorted(services))})",
                allowed="docs/reference/settings.md lists every setting",
            )
        )
    return result


def _load(
    host: Host,
    service: str,
    written: Any,
    reported: frozenset[str],
    models: dict[str, Service],
) -> Iterator[tuple[str, str]]:
    """Yield the place and fault of each setting that a service rejects.

    Adds the settings to ``models`` if all of them are valid.
    """
    if not isinstance(written, Mapping):
        yield f"control_plane_settings.{service}", "is not a table"
        return
    table, skipped = {}, set()
    for key, value in written.items():
        needs = host.mentions(value)
        rendered = None
        try:
            if not needs & reported:
                rendered = _as_toml_reads(key, host.templar.template(value))
        except AnsibleError as error:
            for fault in uncomputed(host, needs, error):
                yield _origin(service, written, str(key)), fault
        if rendered is None:
            skipped.add(key)
        else:
            table[key] = rendered
    model = SERVICES[service]
    is_valid = True
    for wrong in problems(model, table):
        if wrong.where[0] not in skipped:
            is_valid = False
            yield _origin(service, written, key_of(wrong)), wrong.text
    if is_valid and not skipped & _required(model):
        models[service] = model.model_validate(table)


def _required(model: type[Service]) -> set[str]:
    """Return the names of the settings that have no default."""
    return {key for key, option in model.model_fields.items() if option.is_required()}


def _as_toml_reads(key: Any, value: Any) -> Any:
    return tomllib.loads(_toml.to_toml({key: value})).get(key)


def _origin(service: str, written: Any, place: str) -> str:
    """Return the variable that a setting comes from, with the rest of the setting's path."""
    keys = place.split(".")
    for index, key in enumerate(keys):
        written = written.get(key) if isinstance(written, Mapping) else None
        variable = _VARIABLE.match(written) if isinstance(written, str) else None
        if variable:
            return ".".join([variable[1], *keys[index + 1 :]])
    return f"control_plane_settings.{service}.{place}"


def ports(inventory: Inventory, settings: Read) -> Iterator[Diagnostic]:
    """Find ports on which two programs of a host would listen."""
    for name, host in inventory.hosts.items():
        claims: dict[tuple[str, int], list[str]] = defaultdict(list)
        groups = {group for group in inventory.groups if name in inventory.groups[group]}
        for port, program in _other_programs(host, groups):
            claims["tcp", port].append(program)
        for service, model in settings.models[name].items():
            for protocol, endpoint, place in _listening(model, ""):
                port = int(endpoint.rpartition(":")[2])
                claims[protocol, port].append(f"{service} ({place})")
        for (protocol, port), programs in claims.items():
            if len(set(programs)) > 1:
                yield Diagnostic(
                    where=f"host {name}, port {port}/{protocol}",
                    seen=f"used by {' and by '.join(programs)}",
                    allowed="a port for each",
                )


def _other_programs(host: Host, groups: set[str]) -> Iterator[tuple[int, str]]:
    """Yield port and name of each program on a host that is not part of the control plane."""
    for group, program, first, last in PROGRAMS:
        if group in groups:
            for port in range(first, last + 1):
                yield port, program
    if "cvmfs_replica" in groups and host.value("cvmfs_provider") == "cern":
        yield 80, "Apache (cvmfs_provider)"
        groups = groups - {"cvmfs_replica"}
    for group, program, variable in CHOSEN:
        if group in groups:
            # Another check reports a variable without a port.
            port = _PORT.search(str(host.value(variable)))
            if port:
                yield int(port[0]), f"{program} ({variable})"


def _listening(model: Settings, place: str) -> Iterator[tuple[str, str, str]]:
    """Yield protocol, host:port and path of each setting on which a service listens."""
    for name, value in model:
        if isinstance(value, Settings):
            yield from _listening(value, f"{place}{name}.")
        elif value and name.endswith("listen"):
            yield "udp" if name in _UDP else "tcp", value, f"{place}{name}"
