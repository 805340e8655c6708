# SPDX-License-Identifier: Apache-2.0
"""meta/site.yml, the table of roles and groups, and the files that are generated from it."""

import copy

import pytest
import yaml
from tests.modules import load
from tests.roles.catalogue import ROOT, roles
from tests.roles.conftest import roles_of
from tests.roles.content import imported_playbooks, named
from tests.yaml_files import read_yaml

plays = load(ROOT / "tools/plays.py")
TABLE = read_yaml(ROOT / "meta/site.yml")
GENERATED = plays.generated_files(TABLE)


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_a_generated_file_is_up_to_date_with_the_table(path):
    """After a change of the table, ``python tools/plays.py`` updates the files."""
    assert path.read_text() == GENERATED[path]


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_lines_of_generated_files_have_at_most_100_columns(path):
    for line in GENERATED[path].splitlines():
        assert len(line) <= 100


def test_site_yml_imports_the_playbooks_of_the_table_in_order():
    imported_files = imported_playbooks("site")

    assert [name for name in imported_files if name in TABLE["playbooks"]] == [*TABLE["playbooks"]]


def test_plays_of_the_table_name_known_groups_and_roles():
    groups = {*TABLE["groups"], "all"}
    role_names = {role.name for role in roles()}

    for play in plays.plays_of(TABLE):
        assert set(play["hosts"]) <= groups
        assert set(plays.roles_of(play)) <= role_names


def test_a_group_added_to_a_play_is_in_the_play_the_check_and_the_teardown():
    table = copy.deepcopy(TABLE)
    named("Run the gateway", plays.plays_of(table))["hosts"].append("grid")

    files = {path.name: yaml.safe_load(text) for path, text in plays.generated_files(table).items()}

    (play,) = files["gateway.yml"]
    assert play["hosts"] == "gateway:grid"
    assert roles_of(play) == {"traefik"}
    verify_variables = [task["vars"] for task in files["verify_host.yml"]]
    assert {"__verify_role": "traefik", "__verify_groups": ["gateway", "grid"]} in verify_variables
    assert named("Remove the gateway", files["teardown.yml"])["hosts"] == "gateway:grid"
