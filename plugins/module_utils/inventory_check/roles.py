# SPDX-License-Identifier: Apache-2.0
"""Checks variables against the requirements of the roles.

The requirements are the types and choices in ``meta/argument_specs.yml``, and the assertions in
``tasks/validate.yml``. This module also finds misspelled variables.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader

from .diagnostic import Diagnostic
from .inventory import (
    CHECKOUT,
    RUNTIME_VARIABLES,
    WIRING,
    Host,
    Inventory,
    group_by_meaning,
    to_template,
)
from .value_types import type_fault

COLLECTION = "gridstead.site."
_SIMILARITY_CUTOFF = 0.85
# Names that Ansible defines in every template.
TEMPLATE_GLOBALS = frozenset(
    {
        "cycler",
        "dict",
        "joiner",
        "lookup",
        "namespace",
        "now",
        "omit",
        "q",
        "query",
        "range",
        "undef",
    }
)
_WORD = re.compile(r"[a-z][a-z0-9_]+")  # anything that can be the name of a variable


@dataclass(frozen=True)
class Role:
    """A role of this checkout.

    Args:
        name: The name of the role.
        patterns: The host patterns of the plays that use the role.
        wiring: The variables of ``group_vars/all/00-wiring`` before templating.
        loader: The loader that reads the role's files.
    """

    name: str
    patterns: tuple[str, ...]
    wiring: Mapping[str, Any]
    loader: DataLoader

    def read(self, part: str) -> Any:
        """Return a YAML file of the role; an empty table if the role does not have the file."""
        path = CHECKOUT / "roles" / self.name / part
        if not path.exists():
            return {}
        # With unsafe=True the loader returns its cached object and not a copy, which is faster.
        # Callers must not change the object.
        return self.loader.load_from_file(str(path), unsafe=True, trusted_as_template=True) or {}

    @functools.cached_property
    def options(self) -> dict[str, dict[str, Any]]:
        """The specifications of the role's public variables."""
        return self.read("meta/argument_specs.yml")["argument_specs"]["main"].get("options", {})

    @functools.cached_property
    def assertions(self) -> list[dict[str, Any]]:
        """The assert tasks in ``tasks/validate.yml``. They need only variables, no host."""
        tasks = self.read("tasks/validate.yml")
        return [task for task in tasks if "ansible.builtin.assert" in task]

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """The role's defaults, which an inventory may replace."""
        return self.read("defaults/main.yml")

    @functools.cached_property
    def constants(self) -> dict[str, Any]:
        """The role's internal variables, which an inventory must not replace."""
        return {**self.read("vars/main.yml"), "role_path": str(CHECKOUT / "roles" / self.name)}

    def is_set_by_inventory(self, host: Host, name: str) -> bool:
        """Return whether the inventory sets a variable to another value than its default.

        Defaults are the role's default and the value of the wiring.
        """
        defaults = (self.defaults.get(name), self.wiring.get(name))
        return name in host.variables and host.variables[name] not in defaults

    def hosts(self, inventory: Inventory) -> list[Host]:
        """Return the hosts of the role, with the variables and defaults that the role reads."""
        groups: list[str] = []
        for pattern in self.patterns:
            groups += pattern.split(":")
        hosts = []
        for host in inventory.members(*groups):
            visible_variables = {**self.defaults, **host.variables, **self.constants}
            hosts.append(Host(host.name, visible_variables, host.loader))
        return hosts


def read_roles(loader: DataLoader) -> list[Role]:
    """Return the roles that site.yml uses, sorted by name."""
    patterns: dict[str, set[str]] = defaultdict(set)
    for entry in loader.load_from_file(str(CHECKOUT / "playbooks/site.yml")):
        playbook = CHECKOUT / "playbooks" / entry["ansible.builtin.import_playbook"]
        for play in loader.load_from_file(str(playbook)):
            for name in _roles_of(play):
                patterns[name].add(play["hosts"])
    wiring: dict[str, Any] = {}
    for path in WIRING.glob("*.yml"):
        wiring |= loader.load_from_file(str(path))
    roles = []
    for name, patterns_of_role in sorted(patterns.items()):
        role = Role(name, tuple(sorted(patterns_of_role)), wiring, loader)
        roles.append(role)
    return roles


def _roles_of(play: Mapping[str, Any]) -> Iterator[str]:
    for entry in play.get("roles", []):
        name = entry["role"] if isinstance(entry, dict) else entry
        yield name.removeprefix(COLLECTION)
    for task in play.get("tasks", []):
        if "ansible.builtin.import_role" in task:
            yield task["ansible.builtin.import_role"]["name"].removeprefix(COLLECTION)


def check_variable_names(inventory: Inventory, roles: Iterable[Role]) -> Iterator[Diagnostic]:
    """Find variables that nothing reads and whose names are similar to names of known variables."""
    known_names: set[str] = set()
    for role in roles:
        known_names.update(role.options)
    for path in WIRING.glob("*.yml"):
        known_names.update(_WORD.findall(path.read_text()))
    first_host: dict[str, str] = {}
    for host in inventory.hosts.values():
        for name in host.variables:
            first_host.setdefault(name, host.name)
    for name in sorted(first_host.keys() - known_names):
        if name.startswith(("_", "ansible_", "inventory_")):
            continue
        similar_names = difflib.get_close_matches(name, known_names, n=1, cutoff=_SIMILARITY_CUTOFF)
        if similar_names:
            yield Diagnostic(
                where=f"variable {name} of {first_host[name]}",
                fault=f"nothing reads this variable; did you mean {similar_names[0]}?",
                affected_names=frozenset(similar_names),
            )


def check_values(
    inventory: Inventory, roles: Iterable[Role], faulty_names: frozenset[str]
) -> Iterator[Diagnostic]:
    """Find values that a role rejects.

    Args:
        inventory: The inventory.
        roles: The roles to check.
        faulty_names: The names of variables with a reported mistake. Values that need such a
            variable are skipped.
    """
    for role in roles:
        hosts = role.hosts(inventory)
        all_faulty_names = set(faulty_names)
        for name in role.options:
            setting_hosts = [host for host in hosts if role.is_set_by_inventory(host, name)]
            for group in group_by_meaning(setting_hosts, to_template(name)):
                for fault in _value_faults(group[0], role, name, frozenset(all_faulty_names)):
                    all_faulty_names.add(name)
                    where = f"{_host_list(group)}, role {role.name}, {name}"
                    yield Diagnostic(where=where, fault=fault)
        for task in role.assertions:
            yield from _check_assertion(role, hosts, task, frozenset(all_faulty_names))


def _check_assertion(
    role: Role, hosts: list[Host], task: dict[str, Any], faulty_names: frozenset[str]
) -> Iterator[Diagnostic]:
    """Find hosts that an assertion of a role rejects."""
    conditions = _conditions(task, "when") + _conditions(task, "that")
    templates = [task.get("loop"), *map(to_template, conditions)]
    for group in group_by_meaning(hosts, templates):
        names = group[0].mentions(templates)
        for fault in _assertion_faults(group[0], task, names, faulty_names):
            yield Diagnostic(where=f"{_host_list(group)}, role {role.name}", fault=fault)


def _host_list(hosts: list[Host]) -> str:
    noun = "host" if len(hosts) == 1 else "hosts"
    return f"{noun} {', '.join(host.name for host in hosts)}"


def _conditions(task: dict[str, Any], key: str) -> list[str]:
    conditions = task.get(key, task["ansible.builtin.assert"].get(key, []))
    return conditions if isinstance(conditions, list) else [conditions]


def _value_faults(host: Host, role: Role, name: str, faulty_names: frozenset[str]) -> list[str]:
    """Return why the specification of a role rejects the value of a variable."""
    needed_names = host.mentions(host.variables[name]) | {name}
    if faulty_names & needed_names:
        return []
    specification = dict(role.options[name])
    specification.pop("required", None)
    try:
        value = host.templar.template(host.variables[name])
    except AnsibleError as error:
        return template_faults(host, needed_names, error)
    fault = type_fault(role.options[name], value)
    if fault:
        return [fault]
    return ArgumentSpecValidator({name: specification}).validate({name: value}).error_messages


def _assertion_faults(
    host: Host, task: dict[str, Any], needed_names: frozenset[str], faulty_names: frozenset[str]
) -> list[str]:
    """Return the message of an assertion that fails; empty if the assertion holds.

    If the assertion has a loop, the message is about the first item that does not satisfy it.
    """
    if faulty_names & needed_names:
        return []
    loop_variable = task.get("loop_control", {}).get("loop_var", "item")
    try:
        for item in host.templar.template(task.get("loop", [None])):
            templar = host.with_variables({loop_variable: item}).templar
            is_run = all(map(templar.evaluate_conditional, _conditions(task, "when")))
            if not is_run:
                continue
            if not all(map(templar.evaluate_conditional, _conditions(task, "that"))):
                return [templar.template(task["ansible.builtin.assert"]["fail_msg"])]
    except AnsibleError as error:
        return template_faults(host, needed_names, error)
    return []


def template_faults(host: Host, needed_names: frozenset[str], error: AnsibleError) -> list[str]:
    """Return why a value cannot be rendered.

    Returns an empty list if the value needs a variable that has no value before the run.
    """
    if needed_names & RUNTIME_VARIABLES:
        return []
    known_names = TEMPLATE_GLOBALS | host.variables.keys()
    unknown_names = sorted(needed_names - known_names)
    unset_names = [name for name in unknown_names if not name.startswith("group ")]
    if unset_names:
        return [f"needs {', '.join(unset_names)}, which nothing sets"]
    return [f"cannot be computed: {error.message}"]
