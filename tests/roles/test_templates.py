# SPDX-License-Identifier: Apache-2.0
"""Every template renders for every host, and a parser of the file format accepts the result.

samples/<role>.yml has values for variables that only tasks set, such as a loop item or a registered
result.
"""

import configparser
import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from tests.roles.catalogue import Role, roles
from tests.roles.conftest import LoadedInventory

every_role = pytest.mark.parametrize("role", roles(), ids=lambda role: role.name)


def template_parameters() -> Iterator[object]:
    """Yield each role with each of its templates."""
    for role in roles():
        for template in role.templates:
            path = template.relative_to(role.path / "templates")
            yield pytest.param(role, template, id=f"{role.name}-{path}")


every_template = pytest.mark.parametrize(("role", "template"), [*template_parameters()])


def read_unit(text: str) -> None:
    """Read a systemd unit. Keys may repeat."""
    parser = configparser.ConfigParser(
        strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#", ";")
    )
    parser.read_string(text)
    assert parser.sections()


def read_settings(text: str) -> None:
    """Read lines of ``Key=value``, as in slurm.conf. Directive Include is accepted."""
    for line in text.splitlines():
        if line.strip() and not line.startswith(("#", "Include ")):
            assert "=" in line


READERS: dict[str, Callable[[str], object]] = {
    ".toml": tomllib.loads,
    ".json": json.loads,
    ".yml": yaml.safe_load,
    ".yaml": yaml.safe_load,
    **dict.fromkeys((".service", ".socket", ".timer", ".mount", ".path", ".target"), read_unit),
}


def reader(template: Path) -> Callable[[str], object] | None:
    """Return the reader of a template's file, or None if only the program itself can read it."""
    target = template.with_suffix("") if template.suffix == ".j2" else template
    if any(part.endswith(".service.d") for part in target.parts):
        return read_unit
    is_slurm_conf = target.parent.name == "slurm" and target.suffix == ".conf"
    if is_slurm_conf and target.name != "plugstack.conf":
        return read_settings
    return READERS.get(target.suffix)


@every_role
def test_a_play_uses_the_role(role: Role, site: LoadedInventory):
    assert site.patterns_of(role)


ROLES_WITH_MAIN = [role for role in roles() if "main" in role.entry_points]


@pytest.mark.parametrize("role", ROLES_WITH_MAIN, ids=lambda role: role.name)
def test_the_inventory_sets_the_roles_required_variables(
    role: Role, site_of: Callable[[Role], LoadedInventory]
):
    options = role.entry_points["main"]["options"]
    validator = ArgumentSpecValidator(options)
    site = site_of(role)
    for host in site.hosts_of(role):
        templar = site.templar(role, host)
        arguments = {}
        for name in options.keys() & templar.available_variables.keys():
            arguments[name] = templar.template(templar.available_variables[name])

        assert validator.validate(arguments).error_messages == []


@every_template
def test_a_template_renders_to_a_valid_file(
    role: Role, template: Path, site_of: Callable[[Role], LoadedInventory]
):
    read = reader(template)
    site = site_of(role)
    for host in site.hosts_of(role):
        text = site.render(role, template, host)

        assert "{{" not in text
        if read is not None:
            read(text)
