# SPDX-License-Identifier: Apache-2.0
"""Rules for every role: its specification, defaults, README, handlers and calls."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.roles.catalogue import COLLECTION, ROOT, Role, one_line, roles, with_table
from tests.yaml_files import read_yaml

from gridstead.domain.site.playbook import VERBS

# The variable from which playbooks/tasks/verify_role.yml takes the name of the role to verify.
ROLE_VARIABLE = "__verify_role"
INCLUDES = ("ansible.builtin.import_role", "ansible.builtin.include_role")

every_role = pytest.mark.parametrize("role", roles(), ids=lambda role: role.name)


@every_role
def test_the_defaults_match_the_specification(role: Role):
    defaults = {}
    for name, option in role.options.items():
        if "default" in option:
            defaults[name] = option["default"]

    assert defaults == role.defaults


@every_role
def test_the_defaults_name_every_variable_in_the_order_of_the_specification(role: Role):
    """A required variable has no default, so the file names it in a comment."""
    assert list(role.options) == list(role.comments())


@every_role
def test_the_comment_above_a_default_is_its_description(role: Role):
    expected = {name: one_line(option["description"]) for name, option in role.options.items()}

    assert expected == role.comments()


@every_role
def test_variables_have_the_roles_name_as_prefix(role: Role):
    for name in role.options:
        assert name.startswith(f"{role.name}_")
    for name in role.vars:
        assert name.startswith(f"__{role.name}_")


@every_role
def test_the_readme_shows_the_variables(role: Role):
    """After a change of a specification, ``python -m tests.roles.catalogue`` updates the README."""
    text = (role.path / "README.md").read_text()

    assert with_table(text, role) == text


@every_role
def test_no_role_names_an_inventory_group(role: Role):
    for path in role.path.rglob("*"):
        if path.suffix in {".yml", ".j2"}:
            assert not re.search(r"groups\[|group_names", path.read_text()), path


@every_role
def test_roles_have_no_dependencies(role: Role):
    assert read_yaml(role.path / "meta/main.yml").get("dependencies", []) == []


@every_role
def test_the_first_word_of_a_handlers_name_is_its_effect(role: Role):
    """`gridstead provider plan` reads this word."""
    path = role.path / "handlers/main.yml"
    handlers = read_yaml(path) if path.exists() else []

    for handler in handlers:
        assert handler["name"].split()[0] in VERBS


def role_calls(content: Any) -> Iterator[tuple[str, str]]:
    """Yield the role and the entry point of each role call in the content of an Ansible file."""
    if isinstance(content, list):
        for item in content:
            yield from role_calls(item)
    elif isinstance(content, dict):
        for key, value in content.items():
            if key == ROLE_VARIABLE:
                yield value, "verify"
            elif key in INCLUDES and ROLE_VARIABLE not in value["name"]:
                role = value["name"].removeprefix(COLLECTION)
                yield role, value.get("tasks_from", "main")
            else:
                yield from role_calls(value)


def test_every_called_entry_point_has_a_specification():
    """Ansible validates the arguments of a call only if the entry point has a specification."""
    specified = set()
    for role in roles():
        specified |= {(role.name, entry_point) for entry_point in role.entry_points}

    call_count = 0
    for folder in ("playbooks", "roles", "molecule"):
        for path in (ROOT / folder).rglob("*.yml"):
            for call in role_calls(read_yaml(path)):
                assert call in specified, path
                call_count += 1
    assert call_count > len(roles())


@every_role
def test_apt_updates_its_lists_only_on_request(role: Role):
    """cache_valid_time makes apt update its lists, even without `update_cache`."""
    for path in role.path.glob("tasks/**/*.yml"):
        for line in re.findall("cache_valid_time: .*", path.read_text()):
            assert re.match(r"cache_valid_time: \"\{\{ \w+ \| ternary\(\d+, 0\) \}\}\"", line), path
