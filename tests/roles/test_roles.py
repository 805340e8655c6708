# SPDX-License-Identifier: Apache-2.0
"""The specification, the defaults and the README of every role agree."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.roles.catalogue import COLLECTION, ROOT, Role, flat, roles, with_table

from gridstead.domain.site.playbook import VERBS

# The variable that names the role of playbooks/tasks/verify_role.yml.
VERIFIED = "__verify_role"
INCLUDES = ("ansible.builtin.import_role", "ansible.builtin.include_role")

every_role = pytest.mark.parametrize("role", roles(), ids=lambda role: role.name)


@every_role
def test_the_defaults_match_the_specification(role: Role):
    expected = {
        name: option["default"] for name, option in role.options.items() if "default" in option
    }

    assert expected == role.defaults


@every_role
def test_the_defaults_name_every_variable_in_the_order_of_the_specification(role: Role):
    """A required variable is commented out."""
    assert list(role.options) == list(role.comments())


@every_role
def test_the_comment_above_a_default_is_its_description(role: Role):
    expected = {name: flat(option["description"]) for name, option in role.options.items()}

    assert expected == role.comments()


@every_role
def test_variables_have_the_roles_name_as_prefix(role: Role):
    foreign = [name for name in role.options if not name.startswith(f"{role.name}_")]
    foreign += [name for name in role.vars if not name.startswith(f"__{role.name}_")]

    assert not foreign


@every_role
def test_the_readme_shows_the_variables(role: Role):
    """Run ``python -m tests.roles.catalogue`` after a change of a specification."""
    text = (role.path / "README.md").read_text()

    assert with_table(text, role) == text


@every_role
def test_no_role_names_an_inventory_group(role: Role):
    naming = [
        path.relative_to(role.path)
        for path in role.path.rglob("*")
        if path.suffix in {".yml", ".j2"}
        and ("groups[" in path.read_text() or "group_names" in path.read_text())
    ]

    assert not naming


@every_role
def test_roles_have_no_dependencies(role: Role):
    assert yaml.safe_load((role.path / "meta/main.yml").read_text()).get("dependencies", []) == []


@every_role
def test_the_first_word_of_a_handler_is_its_effect(role: Role):
    """`gridstead provider plan` reads this word."""
    path = role.path / "handlers/main.yml"
    handlers = yaml.safe_load(path.read_text()) if path.exists() else []

    assert [
        handler["name"] for handler in handlers if handler["name"].split()[0] not in VERBS
    ] == []


def calls(said: Any, path: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield the role, the entry point and the file of each role call in an Ansible file."""
    if isinstance(said, list):
        for item in said:
            yield from calls(item, path)
    elif isinstance(said, dict):
        for key, value in said.items():
            if key == VERIFIED:
                yield value, "verify", path.relative_to(ROOT)
            elif key in INCLUDES and VERIFIED not in value["name"]:
                role = value["name"].removeprefix(COLLECTION)
                yield role, value.get("tasks_from", "main"), path.relative_to(ROOT)
            else:
                yield from calls(value, path)


def test_every_called_entry_point_has_a_specification():
    """Ansible validates the arguments of a call only if the entry point has a specification."""
    files = [
        path for part in ("playbooks", "roles", "molecule") for path in (ROOT / part).rglob("*.yml")
    ]
    called = [call for path in files for call in calls(yaml.safe_load(path.read_text()), path)]
    known = {(role.name, point) for role in roles() for point in role.entry_points}

    assert len(called) > len(roles())
    assert (
        sorted(
            {
                f"{role}, {point}: {path}"
                for role, point, path in called
                if (role, point) not in known
            }
        )
        == []
    )


@every_role
def test_apt_updates_its_lists_only_on_request(role: Role):
    """cache_valid_time makes apt update its lists, even without `update_cache`."""
    for path in role.path.glob("tasks/**/*.yml"):
        for line in re.findall("cache_valid_time: .*", path.read_text()):
            assert re.match(r"cache_valid_time: \"\{\{ \w+ \| ternary\(\d+, 0\) \}\}\"", line), path
