# SPDX-License-Identifier: Apache-2.0
"""Checks the settings of the control plane's services, and finds ports that two programs use.

The settings are rendered in the same way as in role control_plane. The pydantic models of the
services validate them.
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

from gridstead.config import SERVICE_SETTINGS, Service, Settings, setting_diagnostics, setting_key

from .diagnostic import Diagnostic
from .inventory import Host, Inventory
from .roles import template_faults

_VARIABLE = re.compile(r"\s*\{\{ (\w+)\b")  # the first variable of a template
_UDP_SETTINGS = {"report_listen"}
_PORT = re.compile(r"[0-9]+$")  # the end of ADDRESS:PORT
# Programs outside of the control plane that listen on fixed ports: group, program, first and last
# port.
FIXED_PORTS = (
    ("all", "sshd", 22, 22),
    ("slurm_controller", "slurmctld", 6817, 6817),
    ("slurm_backup_controller", "slurmctld", 6817, 6817),
    ("slurm_compute", "slurmd", 6818, 6818),
    ("slurm_accounting", "slurmdbd", 6819, 6819),
    ("slurm_accounting", "MariaDB", 3306, 3306),
    ("directory", "389ds", 636, 636),
    ("storage", "MooseFS", 9419, 9422),
    ("storage", "NFS", 2049, 2049),
    # Traefik listens on 636 too, but not on a host of the directory.
    ("gateway", "Traefik", 80, 80),
    ("gateway", "Traefik", 443, 443),
)
# Programs whose port is in a variable: group, program, variable. The value is a port, or an address
# with a port.
CONFIGURED_PORTS = (
    ("gateway", "Traefik", "traefik_grpc_port"),
    ("gateway", "Traefik", "traefik_api_port"),
    ("gateway", "Traefik", "traefik_metrics_listen"),
    ("devnet", "devnet", "devnet_port"),
    ("cvmfs_replica", "gridstead cvmfs", "cvmfs_listen"),
)
# Traefik can accept HTTPS and gRPC on one port.
SHARED_PORT = ("traefik_grpc_port", "443")


@dataclass
class CheckedSettings:
    """The settings of all services.

    Args:
        diagnostics: One diagnostic for each unknown service, and for each value that the models
            reject, even if several services use the value.
        models: The valid settings, by host and service.
    """

    diagnostics: list[Diagnostic] = field(default_factory=list)
    models: dict[str, dict[str, Service]] = field(default_factory=lambda: defaultdict(dict))


def check_settings(inventory: Inventory, faulty_names: frozenset[str]) -> CheckedSettings:
    """Validate the settings of the services.

    Args:
        inventory: The inventory.
        faulty_names: Variables with a reported mistake. Settings that need one of them are skipped.
    """
    result = CheckedSettings()
    services_by_fault: dict[tuple[str, str], set[str]] = defaultdict(set)
    for host in inventory.hosts.values():
        tables = host.variables.get("control_plane_settings", {})
        for service in host.value("control_plane_services", []):
            if service not in SERVICE_SETTINGS:
                result.diagnostics.append(
                    Diagnostic(
                        where=f"host {host.name}, control_plane_services",
                        fault=f'unknown service "{service}"',
                        allowed=", ".join(SERVICE_SETTINGS),
                    )
                )
            elif isinstance(tables, Mapping) and service in tables:
                models = result.models[host.name]
                for where, fault in _load(host, service, tables[service], faulty_names, models):
                    services_by_fault[where, fault].add(service)
    for (where, fault), services in services_by_fault.items():
        result.diagnostics.append(
            Diagnostic(
                where=where,
                fault=f"{fault} (reported by {', '.join(sorted(services))})",
                allowed="a setting and a value as docs/reference/settings.md describes them",
            )
        )
    return result


def _load(
    host: Host,
    service: str,
    templates: Any,
    faulty_names: frozenset[str],
    models: dict[str, Service],
) -> Iterator[tuple[str, str]]:
    """Yield the variable and the fault of each setting that a service rejects.

    If all settings are valid, adds the validated settings to ``models``.

    Args:
        host: The host of the service.
        service: The name of the service.
        templates: The settings of the service before templating.
        faulty_names: Settings that need one of these variables are skipped.
        models: The validated settings by service.
    """
    if not isinstance(templates, Mapping):
        yield f"control_plane_settings.{service}", "is not a table"
        return
    table, skipped_keys = {}, set()
    for key, template in templates.items():
        needed_names = host.mentions(template)
        rendered_value = None
        try:
            if not needed_names & faulty_names:
                rendered_value = _through_toml(key, host.templar.template(template))
        except AnsibleError as error:
            for fault in template_faults(host, needed_names, error):
                yield _variable_of(service, templates, str(key)), fault
        if rendered_value is None:
            skipped_keys.add(key)
        else:
            table[key] = rendered_value
    model = SERVICE_SETTINGS[service]
    is_valid = True
    for problem in setting_diagnostics(model, table):
        if problem.where[0] not in skipped_keys:
            is_valid = False
            yield _variable_of(service, templates, setting_key(problem)), problem.text
    if is_valid and skipped_keys.isdisjoint(_required_settings(model)):
        models[service] = model.model_validate(table)


def _required_settings(model: type[Service]) -> set[str]:
    """Return the names of the settings that have no default."""
    return {key for key, option in model.model_fields.items() if option.is_required()}


def _through_toml(key: Any, value: Any) -> Any:
    """Return a value as a service reads it from its TOML file."""
    return tomllib.loads(_toml.to_toml({key: value})).get(key)


def _variable_of(service: str, templates: Any, path: str) -> str:
    """Return the variable that contains a setting, followed by the rest of the setting's path.

    Args:
        service: The name of the service.
        templates: The settings of the service before templating.
        path: The keys of the setting, separated by dots.
    """
    keys = path.split(".")
    value = templates
    for index, key in enumerate(keys):
        value = value.get(key) if isinstance(value, Mapping) else None
        match = _VARIABLE.match(value) if isinstance(value, str) else None
        if match:
            return ".".join([match[1], *keys[index + 1 :]])
    return f"control_plane_settings.{service}.{path}"


def check_ports(inventory: Inventory, settings: CheckedSettings) -> Iterator[Diagnostic]:
    """Find ports on which two programs of a host would listen."""
    for name, host in inventory.hosts.items():
        programs_by_port: dict[tuple[str, int], list[str]] = defaultdict(list)
        groups = {group for group in inventory.groups if name in inventory.groups[group]}
        for port, program in _other_programs(host, groups):
            programs_by_port["tcp", port].append(program)
        for service, model in settings.models[name].items():
            for protocol, endpoint, path in _listen_settings(model, ""):
                port = int(endpoint.rpartition(":")[2])
                programs_by_port[protocol, port].append(f"{service} ({path})")
        for (protocol, port), programs in programs_by_port.items():
            if len(set(programs)) > 1:
                yield Diagnostic(
                    where=f"host {name}, port {port}/{protocol}",
                    fault=f"used by {' and by '.join(programs)}",
                    allowed="a different port for each program",
                )


def _other_programs(host: Host, groups: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the port and the name of each program on a host that is no control plane service."""
    for group, program, first, last in FIXED_PORTS:
        if group in groups:
            for port in range(first, last + 1):
                yield port, program
    if "cvmfs_replica" in groups and host.value("cvmfs_provider") == "cern":
        # Apache serves the replica, so gridstead cvmfs does not listen.
        yield 80, "Apache (cvmfs_provider)"
        groups = groups - {"cvmfs_replica"}
    for group, program, variable in CONFIGURED_PORTS:
        if group in groups:
            # Another check reports a value without a port.
            port = _PORT.search(str(host.value(variable)))
            if port and (variable, port[0]) != SHARED_PORT:
                yield int(port[0]), f"{program} ({variable})"


def _listen_settings(model: Settings, prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield protocol, host:port and path of each setting on which a service listens."""
    for name, value in model:
        if isinstance(value, Settings):
            yield from _listen_settings(value, f"{prefix}{name}.")
        elif value and name.endswith("listen"):
            protocol = "udp" if name in _UDP_SETTINGS else "tcp"
            yield protocol, value, f"{prefix}{name}"
