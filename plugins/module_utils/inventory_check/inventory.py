# SPDX-License-Identifier: Apache-2.0
"""Hosts, groups and variables of an inventory, and the rendering of variables.

As in Ansible, a variable is rendered with the variables of a host when the value is read. No host
is contacted. A template may create a missing secret. Such a secret is written to a temporary
folder, which is removed after the check.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from jinja2 import Environment, TemplateSyntaxError, nodes

from .value_types import type_fault

CHECKOUT = Path(__file__).resolve().parents[3]
WIRING = CHECKOUT / "inventory" / "group_vars" / "all"
# The table of groups and of the roles that run on them.
GROUP_TABLE = CHECKOUT / "meta" / "site.yml"
# Variables that have no value before Ansible has contacted the hosts.
RUNTIME_VARIABLES = frozenset({"ansible_facts", "hostvars"})
_GROUP = re.compile(r"groups\[['\"](\w+)['\"]\]")  # groups['NAME'] in a template
_SYNTAX = Environment()  # noqa: S701 - nothing is rendered


@functools.cache
def _template_variables(text: str) -> frozenset[str]:
    """Return the variables that a template reads. ``groups['x']`` is returned as ``group x``."""
    try:
        name_nodes = _SYNTAX.parse(text).find_all(nodes.Name)
    except TemplateSyntaxError:
        return frozenset()
    names = set()
    for node in name_nodes:
        names.add(node.name)
    for group in _GROUP.findall(text):
        names.add(f"group {group}")
    return frozenset(names)


@dataclass(frozen=True)
class Host:
    """A host of the inventory.

    Args:
        name: The name of the host.
        variables: The variables of the host before templating.
        loader: The loader that reads files for templates.
        options: The specifications of the roles' variables, by name.
    """

    name: str
    variables: Mapping[str, Any]
    loader: DataLoader
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @functools.cached_property
    def templar(self) -> Templar:
        """The renderer of templates with the host's variables."""
        return Templar(loader=self.loader, variables=dict(self.variables))

    def with_variables(self, new_values: Mapping[str, Any]) -> Host:
        """Return the host with some variables set to new values."""
        return Host(self.name, {**self.variables, **new_values}, self.loader, self.options)

    def value(self, name: str, default: Any = None) -> Any:
        """Return a variable's value.

        Returns the default if the variable is missing, cannot be rendered or has the wrong type.
        """
        if name not in self.variables:
            return default
        try:
            rendered_value = self.templar.template(self.variables[name])
        except AnsibleError:
            return default
        if type_fault(self.options.get(name, {}), rendered_value):
            return default
        return rendered_value

    def mentions(self, value: Any) -> frozenset[str]:
        """Return the variables that are needed to render a value, directly or indirectly.

        A group that the value names is returned as ``group NAME``.
        """
        mentioned_names: set[str] = set()
        remaining_values = [value]
        while remaining_values:
            part = remaining_values.pop()
            if isinstance(part, Mapping):
                remaining_values += part.values()
            elif isinstance(part, list | tuple):
                remaining_values += part
            elif isinstance(part, str):
                new_names = _template_variables(str(part)) - mentioned_names
                mentioned_names |= new_names
                for name in (new_names - RUNTIME_VARIABLES) & self.variables.keys():
                    template = self.variables[name]
                    remaining_values.append(template)
        return frozenset(mentioned_names)

    def number(self, name: str) -> int | None:
        """Return the value of a variable as an integer; None if it is not an integer."""
        return to_int(self.value(name))


@dataclass(frozen=True)
class Inventory:
    """The groups and hosts of an inventory.

    Args:
        groups: Hosts by group; the group ``all`` has every host.
        hosts: Every host, by name.
        secrets_dir: Value of the variable ``gridstead_secrets_dir``; None if it is not set.
    """

    groups: Mapping[str, list[str]]
    hosts: Mapping[str, Host]
    secrets_dir: Any

    def members(self, *groups: str) -> list[Host]:
        """Return the hosts of the groups, each once, in the inventory's order."""
        names: set[str] = set()
        for group in groups:
            names.update(self.groups.get(group, []))
        return [host for name, host in self.hosts.items() if name in names]

    def first(self) -> Host:
        """Return any host, to read a variable that has the same value on all hosts."""
        return next(iter(self.hosts.values()))


def to_template(expression: str) -> str:
    """Return a template that renders an expression, for example ``{{ a + 1 }}``."""
    return f"{{{{ {expression} }}}}"


def group_by_variables(hosts: Iterable[Host], value: Any) -> list[list[Host]]:
    """Divide the hosts into groups.

    Each variable that the value needs is equal on all hosts of a group.
    """
    by_variables: dict[str, list[Host]] = {}
    for host in hosts:
        known_names = host.variables.keys() - {"hostvars"}
        names = sorted(host.mentions(value) & known_names)
        variables = {name: host.variables[name] for name in names}
        key = repr(variables)
        by_variables.setdefault(key, []).append(host)
    return list(by_variables.values())


def to_int(value: Any) -> int | None:
    """Return a value as an integer; None if it is not an integer.

    Text with an integer is accepted. A boolean is not accepted.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def address(value: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a value as an IP address; None if it is not a valid address."""
    try:
        return ipaddress.ip_address(str(value))
    except ValueError:
        return None
