# SPDX-License-Identifier: Apache-2.0
"""An inventory as its variables define it. No host is contacted.

Variables are rendered as Ansible renders them: late, and in the context of a host. If rendering a
variable creates a missing secret, the secret is created in a temporary folder, which is removed
after the check.
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

from .form import misfit

CHECKOUT = Path(__file__).resolve().parents[3]
WIRING = CHECKOUT / "inventory" / "group_vars" / "all"
# Which role runs on which group.
TABLE = CHECKOUT / "meta" / "site.yml"
# Variables that have a value only after hosts were contacted.
LATE = frozenset({"ansible_facts", "hostvars"})
_GROUP = re.compile(r"groups\[['\"](\w+)['\"]\]")
_SYNTAX = Environment()  # noqa: S701 - nothing is rendered


@functools.cache
def _names(text: str) -> frozenset[str]:
    try:
        used = _SYNTAX.parse(text).find_all(nodes.Name)
    except TemplateSyntaxError:
        return frozenset()
    names = set()
    for node in used:
        names.add(node.name)
    for group in _GROUP.findall(text):
        names.add(f"group {group}")
    return frozenset(names)


@dataclass(frozen=True)
class Host:
    """A host of the inventory.

    Args:
        name: Its name.
        variables: Its variables, as they are written.
        loader: The loader that reads files for templates.
        options: The specifications of the roles' variables, by name.
    """

    name: str
    variables: Mapping[str, Any]
    loader: DataLoader
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @functools.cached_property
    def templar(self) -> Templar:
        """The renderer of its templates."""
        return Templar(loader=self.loader, variables=dict(self.variables))

    def with_variables(self, more: Mapping[str, Any]) -> Host:
        """Return the host with additional variables, which replace its own."""
        return Host(self.name, {**self.variables, **more}, self.loader, self.options)

    def value(self, name: str, default: Any = None) -> Any:
        """Return a variable's value.

        Returns the default if the variable is missing, cannot be rendered or has the wrong type.
        """
        if name not in self.variables:
            return default
        try:
            rendered = self.templar.template(self.variables[name])
        except AnsibleError:
            return default
        return default if misfit(self.options.get(name, {}), rendered) else rendered

    def mentions(self, value: Any) -> frozenset[str]:
        """Return the variables that a written value needs, directly or through other variables.

        A group that it names is included as ``group NAME``.
        """
        mentioned: set[str] = set()
        waiting = [value]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Mapping):
                waiting += part.values()
            elif isinstance(part, list | tuple):
                waiting += part
            elif isinstance(part, str):
                new = _names(str(part)) - mentioned
                mentioned |= new
                for name in (new - LATE) & self.variables.keys():
                    written = self.variables[name]
                    waiting.append(written)
        return frozenset(mentioned)

    def number(self, name: str) -> int | None:
        """Return the value of a variable as an integer; None if it is not an integer."""
        return whole(self.value(name))


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


def alike(hosts: Iterable[Host], value: Any) -> list[list[Host]]:
    """Return the hosts in lists, so that a written value means the same on all hosts of a list."""
    by_variables: dict[str, list[Host]] = {}
    for host in hosts:
        needs = sorted(host.mentions(value) & host.variables.keys() - {"hostvars"})
        written = {name: host.variables[name] for name in needs}
        key = repr(written)
        by_variables.setdefault(key, []).append(host)
    return list(by_variables.values())


def whole(value: Any) -> int | None:
    """Return a value as an integer; None if it is not one.

    Text of digits is accepted, a boolean is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def address(value: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a value as an IP address; None if it is not one."""
    try:
        return ipaddress.ip_address(str(value))
    except ValueError:
        return None
