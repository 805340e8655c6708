# SPDX-License-Identifier: Apache-2.0
"""meta/site.yml, the table of roles and groups, and the files that are generated from it."""

import copy

import pytest
import yaml
from tests.modules import load
from tests.roles.catalogue import ROOT, roles
from tests.roles.conftest import roles_of

plays = load(ROOT / "tools/plays.py")
TABLE = yaml.safe_load((ROOT / "meta/site.yml").read_text())
GENERATED = plays.generated_files(TABLE)


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_a_generated_file_matches_the_table(path):
    """To write the files again, run tools/plays.py."""
    assert path.read_text() == GENERATED[path]


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_lines_of_generated_files_have_at_most_100_columns(path):
    assert [line for line in GENERATED[path].splitlines() if len(line) > 100] == []


def test_site_yml_imports_the_playbooks_of_the_table_in_order():
    parts = yaml.safe_load((ROOT / "playbooks/site.yml").read_text())
    imported = [part["ansible.builtin.import_playbook"].removesuffix(".yml") for part in parts]

    assert [name for name in imported if name in TABLE["playbooks"]] == [*TABLE["playbooks"]]


def test_plays_of_the_table_name_known_groups_and_roles():
    known = {*TABLE["groups"], "all"}
    listed = plays.plays_of(TABLE)
    named = {role for play in listed for role in plays.roles_of(play)}

    assert {group for play in listed for group in play["hosts"]} - known == set()
    assert named - {role.name for role in roles()} == set()


def test_a_new_group_of_a_role_is_in_its_play_its_check_and_its_teardown():
    table = copy.deepcopy(TABLE)
    (play,) = (play for play in plays.plays_of(table) if play["name"] == "Run the gateway")
    play["hosts"].append("grid")

    files = {path.name: yaml.safe_load(text) for path, text in plays.generated_files(table).items()}

    (part,) = files["gateway.yml"]
    assert (part["hosts"], roles_of(part)) == ("gateway:grid", {"traefik"})
    (check,) = (
        task for task in files["verify_host.yml"] if task["vars"]["__verify_role"] == "traefik"
    )
    assert check["vars"]["__verify_groups"] == ["gateway", "grid"]
    (removal,) = (play for play in files["teardown.yml"] if play["name"] == "Remove the gateway")
    assert removal["hosts"] == "gateway:grid"
