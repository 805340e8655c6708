# SPDX-License-Identifier: Apache-2.0
"""Every role says the same thing in its specification, its defaults and its README."""

import pytest
import yaml
from tests.roles.catalogue import Role, flat, roles, with_table

from gridstead.domain.playbook import VERBS

every_role = pytest.mark.parametrize("role", roles(), ids=lambda role: role.name)


@every_role
def test_the_defaults_are_those_of_the_specification(role: Role):
    expected = {name: option["default"] for name, option in role.options.items() if "default" in option}

    assert expected == role.defaults


@every_role
def test_the_defaults_name_every_variable_in_the_order_of_the_specification(role: Role):
    """A required one stands there commented out."""
    assert list(role.options) == list(role.comments())


@every_role
def test_the_comment_above_a_default_is_its_description(role: Role):
    expected = {name: flat(option["description"]) for name, option in role.options.items()}

    assert expected == role.comments()


@every_role
def test_variables_carry_the_name_of_the_role(role: Role):
    foreign = [name for name in role.options if not name.startswith(f"{role.name}_")]
    foreign += [name for name in role.vars if not name.startswith(f"__{role.name}_")]

    assert not foreign


@every_role
def test_the_readme_shows_the_variables(role: Role):
    """Run ``python -m tests.roles.catalogue`` after a change of a specification."""
    text = (role.path / "README.md").read_text()

    assert with_table(text, role) == text


@every_role
def test_no_role_names_a_group_of_the_inventory(role: Role):
    naming = [
        path.relative_to(role.path)
        for path in role.path.rglob("*")
        if path.suffix in {".yml", ".j2"} and ("groups[" in path.read_text() or "group_names" in path.read_text())
    ]

    assert not naming


@every_role
def test_a_role_depends_on_no_other(role: Role):
    assert yaml.safe_load((role.path / "meta/main.yml").read_text()).get("dependencies", []) == []


@every_role
def test_the_first_word_of_a_handler_says_what_it_costs(role: Role):
    """`gridstead provider plan` tells it by that word."""
    path = role.path / "handlers/main.yml"
    handlers = yaml.safe_load(path.read_text()) if path.exists() else []

    assert [one["name"] for one in handlers if one["name"].split()[0] not in VERBS] == []
