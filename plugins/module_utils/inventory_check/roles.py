# SPDX-License-Identifier: Apache-2.0
"""Checks what the roles require.

These are the types and choices of their specifications, and the assertions of their
``tasks/validate.yml``.
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
from .form import misfit
from .inventory import CHECKOUT, LATE, WIRING, Host, Inventory, alike

COLLECTION = "gridstead.site."
_LIKE = 0.85
# Names that Ansible itself defines in a template.
GLOBALS = frozenset(
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
_WORD = re.compile(r"[a-z][a-z0-9_]+")


@dataclass(frozen=True)
class Role:
    """A role of this checkout.

    Args:
        name: Its name.
        patterns: The host patterns of the plays that use it.
        wiring: The variables that every inventory gets through its link.
        loader: The loader that reads its files.
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
        return self.loader.load_from_file(str(path), trusted_as_template=True) or {}

    @functools.cached_property
    def options(self) -> dict[str, dict[str, Any]]:
        """The specifications of its public variables."""
        return self.read("meta/argument_specs.yml")["argument_specs"]["main"].get("options", {})

    @functools.cached_property
    def assertions(self) -> list[dict[str, Any]]:
        """The tasks of its validation that need only variables."""
        tasks = self.read("tasks/validate.yml")
        return [task for task in tasks if "ansible.builtin.assert" in task]

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """Its defaults, which an inventory may replace."""
        return self.read("defaults/main.yml")

    @functools.cached_property
    def constants(self) -> dict[str, Any]:
        """Its internal variables, which an inventory must not replace."""
        return {**self.read("vars/main.yml"), "role_path": str(CHECKOUT / "roles" / self.name)}

    def is_given(self, host: Host, name: str) -> bool:
        """Return whether the inventory sets a variable.

        The role's default and the value of the wiring do not count.
        """
        own = (self.defaults.get(name), self.wiring.get(name))
        return name in host.variables and host.variables[name] not in own

    def hosts(self, inventory: Inventory) -> list[Host]:
        """Return the hosts of the role, with the variables that the role sees."""
        groups: list[str] = []
        for pattern in self.patterns:
            groups += pattern.split(":")
        hosts = []
        for host in inventory.members(*groups):
            visible = {**self.defaults, **host.variables, **self.constants}
            hosts.append(Host(host.name, visible, host.loader))
        return hosts


def of_site(loader: DataLoader) -> list[Role]:
    """Return the roles that site.yml uses, sorted by name."""
    patterns: dict[str, set[str]] = defaultdict(set)
    for part in loader.load_from_file(str(CHECKOUT / "playbooks/site.yml")):
        playbook = CHECKOUT / "playbooks" / part["ansible.builtin.import_playbook"]
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
        yield (entry["role"] if isinstance(entry, dict) else entry).removeprefix(COLLECTION)
    for task in play.get("tasks", []):
        if "ansible.builtin.import_role" in task:
            yield task["ansible.builtin.import_role"]["name"].removeprefix(COLLECTION)


def variables(inventory: Inventory, roles: Iterable[Role]) -> Iterator[Diagnostic]:
    """Find variables that nothing reads and whose name is similar to that of a known variable."""
    known: set[str] = set()
    for role in roles:
        known.update(role.options)
    for path in WIRING.glob("*.yml"):
        known |= set(_WORD.findall(path.read_text()))
    first_host: dict[str, str] = {}
    for host in inventory.hosts.values():
        for name in host.variables:
            first_host.setdefault(name, host.name)
    for name in sorted(first_host.keys() - known):
        near = difflib.get_close_matches(name, known, n=1, cutoff=_LIKE)
        if near and not name.startswith(("_", "ansible_", "inventory_")):
            yield Diagnostic(
                where=f"variable {name} of {first_host[name]}",
                seen="nothing reads it",
                allowed=f"did you mean {near[0]}?",
                about=frozenset(near),
            )


def demands(
    inventory: Inventory, roles: Iterable[Role], reported: frozenset[str]
) -> Iterator[Diagnostic]:
    """Find values that a role rejects.

    Args:
        inventory: The inventory.
        roles: The roles to check.
        reported: Variables with a reported mistake; values that need one of them are skipped.
    """
    for role in roles:
        hosts, wrong = role.hosts(inventory), set(reported)
        for name in role.options:
            given = [host for host in hosts if role.is_given(host, name)]
            for group in alike(given, f"{{{{ {name} }}}}"):
                for fault in _refused(group[0], role, name, frozenset(wrong)):
                    wrong.add(name)
                    where = f"{_listed(group)}, role {role.name}, {name}"
                    yield Diagnostic(where=where, seen=fault)
        for task in role.assertions:
            yield from _refusals(role, hosts, task, frozenset(wrong))


def _refusals(
    role: Role, hosts: list[Host], task: dict[str, Any], wrong: frozenset[str]
) -> Iterator[Diagnostic]:
    """Find hosts that an assertion of a role rejects."""
    needs = [task.get("loop")]
    for condition in _conditions(task, "when") + _conditions(task, "that"):
        template = f"{{{{ {condition} }}}}"
        needs.append(template)
    for group in alike(hosts, needs):
        mentioned = group[0].mentions(needs)
        for fault in _unmet(group[0], task, mentioned, wrong):
            yield Diagnostic(where=f"{_listed(group)}, role {role.name}", seen=fault)


def _listed(hosts: list[Host]) -> str:
    names = [host.name for host in hosts]
    return f"{'hosts' if len(names) > 1 else 'host'} {', '.join(names)}"


def _conditions(task: dict[str, Any], key: str) -> list[str]:
    conditions = task.get(key, task["ansible.builtin.assert"].get(key, []))
    return conditions if isinstance(conditions, list) else [conditions]


def _refused(host: Host, role: Role, name: str, wrong: frozenset[str]) -> list[str]:
    needs = host.mentions(host.variables[name]) | {name}
    if wrong & needs:
        return []
    specification = dict(role.options[name])
    specification.pop("required", None)
    try:
        value = host.templar.template(host.variables[name])
    except AnsibleError as error:
        return uncomputed(host, needs, error)
    wrong_form = misfit(role.options[name], value)
    if wrong_form:
        return [wrong_form]
    return ArgumentSpecValidator({name: specification}).validate({name: value}).error_messages


def _unmet(
    host: Host, task: dict[str, Any], needs: frozenset[str], wrong: frozenset[str]
) -> list[str]:
    if wrong & needs:
        return []
    loop_variable = task.get("loop_control", {}).get("loop_var", "item")
    try:
        for item in host.templar.template(task.get("loop", [None])):
            templar = host.with_variables({loop_variable: item}).templar
            when = map(templar.evaluate_conditional, _conditions(task, "when"))
            that = map(templar.evaluate_conditional, _conditions(task, "that"))
            if all(when) and not all(that):
                return [templar.template(task["ansible.builtin.assert"]["fail_msg"])]
    except AnsibleError as error:
        return uncomputed(host, needs, error)
    return []


def uncomputed(host: Host, needs: frozenset[str], error: AnsibleError) -> list[str]:
    """Return why a value cannot be rendered.

    Returns an empty list if the value may be available once hosts are contacted.
    """
    if needs & LATE:
        return []
    known = GLOBALS | host.variables.keys()
    unset = [name for name in sorted(needs - known) if not name.startswith("group ")]
    if unset:
        return [f"needs {', '.join(unset)}, which nothing sets"]
    return [f"cannot be computed: {error.message}"]
