# SPDX-License-Identifier: Apache-2.0
"""An inventory as its variables say it, without a host.

Variables are read as templates are: late, and in the context of a host. Secrets that a variable
would make where there is none yet are made in a folder of their own, which goes with the check.
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

from inventory_check.form import misfit

CHECKOUT = Path(__file__).resolve().parents[2]
WIRING = CHECKOUT / "inventory" / "group_vars" / "all"
# Known when hosts have been reached only.
LATE = frozenset({"ansible_facts", "hostvars"})
_GROUP = re.compile(r"groups\[['\"](\w+)['\"]\]")
_SYNTAX = Environment()  # noqa: S701 - nothing is rendered


@functools.cache
def _names(text: str) -> frozenset[str]:
    try:
        used = _SYNTAX.parse(text).find_all(nodes.Name)
    except TemplateSyntaxError:
        return frozenset()
    return frozenset(
        {one.name for one in used} | {f"group {name}" for name in _GROUP.findall(text)}
    )


@dataclass(frozen=True)
class Host:
    """A host.

    Args:
        name: Its name.
        variables: Its variables, as they are written.
        loader: What reads the files of templates.
        options: What the roles' specifications say of variables, by their names.
    """

    name: str
    variables: Mapping[str, Any]
    loader: DataLoader
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @functools.cached_property
    def templar(self) -> Templar:
        """What renders its templates."""
        return Templar(loader=self.loader, variables=dict(self.variables))

    def with_variables(self, more: Mapping[str, Any]) -> Host:
        """Return the host with variables beside its own, which they replace."""
        return Host(self.name, {**self.variables, **more}, self.loader, self.options)

    def value(self, name: str, default: Any = None) -> Any:
        """Return a variable's value; the default if it is missing, cannot be computed or is of
        another form.
        """
        if name not in self.variables:
            return default
        try:
            found = self.templar.template(self.variables[name])
        except AnsibleError:
            return default
        return default if misfit(self.options.get(name, {}), found) else found

    def mentions(self, value: Any) -> frozenset[str]:
        """Return the variables that a value as it is written needs, those that these need, and
        ``group NAME`` too.
        """
        found: set[str] = set()
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, Mapping):
                waiting += one.values()
            elif isinstance(one, list | tuple):
                waiting += one
            elif isinstance(one, str):
                new = _names(str(one)) - found
                found |= new
                waiting += [self.variables[name] for name in new - LATE if name in self.variables]
        return frozenset(found)

    def number(self, name: str) -> int | None:
        """Return a variable that is a whole number, None if it is none."""
        return whole(self.value(name))


@dataclass(frozen=True)
class Site:
    """All of an inventory.

    Args:
        groups: Hosts by group; the group ``all`` has every host.
        hosts: Every host, by name.
        secrets_dir: Where the inventory wants its secrets, as its variable says; None if it does
            not say it.
    """

    groups: Mapping[str, list[str]]
    hosts: Mapping[str, Host]
    secrets_dir: Any

    def members(self, *groups: str) -> list[Host]:
        """Return the hosts of groups, each once, in the inventory's order."""
        wanted = {name for group in groups for name in self.groups.get(group, [])}
        return [host for name, host in self.hosts.items() if name in wanted]

    def first(self) -> Host:
        """Return a host for what all of them say alike."""
        return next(iter(self.hosts.values()))


def alike(hosts: Iterable[Host], value: Any) -> list[list[Host]]:
    """Return hosts in lists of such as give a value, as it is written, one meaning: what is true of
    one is of all.
    """
    found: dict[str, list[Host]] = {}
    for host in hosts:
        needs = sorted(host.mentions(value) & host.variables.keys() - {"hostvars"})
        found.setdefault(repr([(name, host.variables[name]) for name in needs]), []).append(host)
    return list(found.values())


def whole(value: Any) -> int | None:
    """Return a value as a whole number, None if it is none. Text of digits is one; a truth value is
    not.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def address(value: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a value as an IP address, None if it is none."""
    try:
        return ipaddress.ip_address(str(value))
    except ValueError:
        return None
