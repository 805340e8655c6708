# SPDX-License-Identifier: Apache-2.0
"""What the roles themselves demand: types and choices of their specifications, and their own
assertions.
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

from inventory_check.form import misfit
from inventory_check.problem import Problem
from inventory_check.site import CHECKOUT, LATE, WIRING, Host, Site, alike

_LIKE = 0.85
# Names that Ansible itself gives to a template.
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
        patterns: The host patterns of the plays that name it.
        wiring: The variables that every inventory has by its link.
        loader: What reads its files.
    """

    name: str
    patterns: tuple[str, ...]
    wiring: Mapping[str, Any]
    loader: DataLoader

    def read(self, part: str) -> Any:
        """Return a YAML file of the role; empty if it has none."""
        path = CHECKOUT / "roles" / self.name / part
        return (
            (self.loader.load_from_file(str(path), trusted_as_template=True) or {})
            if path.exists()
            else {}
        )

    @functools.cached_property
    def options(self) -> dict[str, dict[str, Any]]:
        """Its public variables."""
        return self.read("meta/argument_specs.yml")["argument_specs"]["main"].get("options", {})

    @functools.cached_property
    def assertions(self) -> list[dict[str, Any]]:
        """The tasks of its validation that need nothing but variables."""
        return [
            task for task in self.read("tasks/validate.yml") if "ansible.builtin.assert" in task
        ]

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """Its variables, which an inventory replaces."""
        return self.read("defaults/main.yml")

    @functools.cached_property
    def constants(self) -> dict[str, Any]:
        """Its variables, which nobody replaces."""
        return {**self.read("vars/main.yml"), "role_path": str(CHECKOUT / "roles" / self.name)}

    def is_given(self, host: Host, name: str) -> bool:
        """Return whether a variable has a value of the site's own: neither the role's default nor
        the wiring's.
        """
        own = (self.defaults.get(name), self.wiring.get(name))
        return name in host.variables and host.variables[name] not in own

    def hosts(self, site: Site) -> list[Host]:
        """Return the hosts that the role is run on, as it sees their variables."""
        wanted = site.members(*(group for pattern in self.patterns for group in pattern.split(":")))
        return [
            Host(host.name, {**self.defaults, **host.variables, **self.constants}, host.loader)
            for host in wanted
        ]


def of_site(loader: DataLoader) -> list[Role]:
    """Return the roles of site.yml, by name."""
    patterns: dict[str, set[str]] = defaultdict(set)
    wiring = {
        name: value
        for path in WIRING.glob("*.yml")
        for name, value in loader.load_from_file(str(path)).items()
    }
    parts = loader.load_from_file(str(CHECKOUT / "playbooks/site.yml"))
    for part in parts:
        for play in loader.load_from_file(
            str(CHECKOUT / "playbooks" / part["ansible.builtin.import_playbook"])
        ):
            listed = [
                entry["role"] if isinstance(entry, dict) else entry
                for entry in play.get("roles", [])
            ]
            imported = [
                task.get("ansible.builtin.import_role", {}).get("name")
                for task in play.get("tasks", [])
            ]
            for name in filter(None, listed + imported):
                patterns[name].add(play["hosts"])
    return [
        Role(name, tuple(sorted(found)), wiring, loader) for name, found in sorted(patterns.items())
    ]


def variables(site: Site, roles: Iterable[Role]) -> Iterator[Problem]:
    """Find variables that nothing reads and that are nearly named like one that something reads."""
    known = {name for role in roles for name in role.options}
    for path in WIRING.glob("*.yml"):
        known |= set(_WORD.findall(path.read_text()))
    said = {name: host.name for host in reversed(site.hosts.values()) for name in host.variables}
    for name in sorted(said.keys() - known):
        near = difflib.get_close_matches(name, known, n=1, cutoff=_LIKE)
        if near and not name.startswith(("_", "ansible_", "inventory_")):
            yield Problem(
                where=f"variable {name} of {said[name]}",
                found="nothing reads it",
                allowed=f"did you mean {near[0]}?",
                about=frozenset(near),
            )


def demands(site: Site, roles: Iterable[Role], reported: frozenset[str]) -> Iterator[Problem]:
    """Find values that a role refuses.

    Args:
        site: The inventory.
        roles: What is asked.
        reported: What is known to be wrong; what a role says only because of it is left out.
    """
    for role in roles:
        hosts, wrong = role.hosts(site), set(reported)
        for name in role.options:
            for some in alike(
                [host for host in hosts if role.is_given(host, name)], f"{{{{ {name} }}}}"
            ):
                for found in _refused(some[0], role, name, frozenset(wrong)):
                    wrong.add(name)
                    yield Problem(where=f"{_all(some)}, role {role.name}, {name}", found=found)
        for task in role.assertions:
            needs = [
                task.get("loop"),
                *(
                    f"{{{{ {one} }}}}"
                    for one in _conditions(task, "when") + _conditions(task, "that")
                ),
            ]
            for some in alike(hosts, needs):
                for found in _unmet(some[0], task, some[0].mentions(needs), frozenset(wrong)):
                    yield Problem(where=f"{_all(some)}, role {role.name}", found=found)


def _all(hosts: list[Host]) -> str:
    return f"{'hosts' if len(hosts) > 1 else 'host'} {', '.join(host.name for host in hosts)}"


def _conditions(task: dict[str, Any], key: str) -> list[str]:
    said = task.get(key, task["ansible.builtin.assert"].get(key, []))
    return said if isinstance(said, list) else [said]


def _refused(host: Host, role: Role, name: str, wrong: frozenset[str]) -> list[str]:
    needs = host.mentions(host.variables[name]) | {name}
    if wrong & needs:
        return []
    specification = {key: value for key, value in role.options[name].items() if key != "required"}
    try:
        value = host.templar.template(host.variables[name])
    except AnsibleError as error:
        return uncomputed(host, needs, error)
    wrong_form = misfit(role.options[name], value)
    return (
        [wrong_form]
        if wrong_form
        else ArgumentSpecValidator({name: specification}).validate({name: value}).error_messages
    )


def _unmet(
    host: Host, task: dict[str, Any], needs: frozenset[str], wrong: frozenset[str]
) -> list[str]:
    if wrong & needs:
        return []
    when, that = _conditions(task, "when"), _conditions(task, "that")
    try:
        for item in host.templar.template(task.get("loop", [None])):
            one = host.with_variables({task.get("loop_control", {}).get("loop_var", "item"): item})
            holds = [one.templar.evaluate_conditional(condition) for condition in when]
            if all(holds) and not all(
                one.templar.evaluate_conditional(condition) for condition in that
            ):
                return [one.templar.template(task["ansible.builtin.assert"]["fail_msg"])]
    except AnsibleError as error:
        return uncomputed(host, needs, error)
    return []


def uncomputed(host: Host, needs: frozenset[str], error: AnsibleError) -> list[str]:
    """Return why something cannot be computed; nothing if it can be when hosts have been reached."""
    unset = sorted(
        name
        for name in needs - GLOBALS
        if name not in host.variables and not name.startswith("group ")
    )
    if needs & LATE:
        return []
    return (
        [f"needs {', '.join(unset)}, which nothing sets"]
        if unset
        else [f"cannot be computed: {error.message}"]
    )
