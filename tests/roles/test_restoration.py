# SPDX-License-Identifier: Apache-2.0
"""Tests of the checks that restore.yml makes before it changes a host.

An archive is a backup of a site. Each role that has data stores a part in the archive.
"""

import json
import subprocess

import pytest
from ansible_collections.gridstead.site.plugins.modules import archive_manifest as manifest
from tests.roles.catalogue import COLLECTION, ROOT, playbook_plays
from tests.roles.content import named, tasks_with
from tests.yaml_files import read_yaml

pytestmark = pytest.mark.slow

HEAD = {"name": "20260102T030405Z", "site": "mysite", "began_at": 1_000, "recipient": "age1owner"}
PLAYS = playbook_plays("restore")


@pytest.fixture
def archive(tmp_path):
    """An archive with two parts."""
    unfinished_folder = tmp_path / "unfinished"
    unfinished_folder.mkdir()
    parts = [
        {"name": "database", "host": "db", "packages": {}},
        {"name": "slurm", "host": "db", "packages": {}},
    ]
    for part in parts:
        (unfinished_folder / f"{part['name']}.age").write_text("sealed")
    manifest.write_manifest(unfinished_folder, HEAD, parts, lambda: 1_007.9)
    return tmp_path / HEAD["name"]


def restore(folder, **variables):
    """Run restore.yml on the example inventory with an archive in ``folder``.

    Return Ansible's output. The playbook must fail before it connects to any host.
    """
    (folder / "backup-key").touch()
    variables |= {
        "archive_dir": str(folder),
        "archive_name": HEAD["name"],
        "archive_identity_file": str(folder / "backup-key"),
        "gridstead_secrets_dir": str(folder),
    }
    command = [
        "ansible-playbook",
        "-i",
        "inventory/example",
        "playbooks/restore.yml",
        "-e",
        json.dumps(variables),
    ]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert result.returncode != 0
    assert "unreachable=1" not in result.stdout
    return " ".join(result.stdout.split())


def test_a_missing_archive_is_reported_before_any_host_is_contacted(tmp_path):
    """The control machine gets the site's name, although it is no host of the inventory."""
    assert "is not an archive: it has no manifest.json" in restore(tmp_path)


def test_missing_parts_are_reported_before_any_host_is_contacted(archive):
    """A part is missing if, for example, a host was renamed after the archive was created."""
    output = restore(archive.parent, archive_site="mysite")

    assert (
        "does not contain control_plane-control of host control,"
        " control_plane-controller of host controller,"
        " control_plane-infra of host infra, directory of host infra, secrets of host localhost;"
        " it contains database, slurm"
    ) in output


def test_an_archive_with_all_required_parts_is_accepted(archive):
    content = manifest.read_manifest(archive, "mysite")
    required = {"slurm": ["db"], "devnet": [], "control_plane-HOST": []}

    manifest.check_parts(archive, content, required)


@pytest.mark.parametrize(
    ("required", "missing"),
    [
        ({"slurm": ["db"], "devnet": ["chain"]}, "devnet of host chain"),
        (
            {"kept-HOST": ["ash", "birch"], "slurm": ["db"]},
            "kept-ash of host ash, kept-birch of host birch",
        ),
    ],
)
def test_an_archive_without_a_required_part_is_refused(archive, required, missing):
    content = manifest.read_manifest(archive, "mysite")

    with pytest.raises(
        manifest.Refusal,
        match=f" does not contain {missing}; it contains database, slurm[.] Restore with",
    ):
        manifest.check_parts(archive, content, required)


def test_the_list_of_required_parts_matches_the_parts_that_the_plays_restore():
    hosts_by_part = {"secrets": ["localhost"]}
    for play in PLAYS:
        hosts = f"{{{{ query('ansible.builtin.inventory_hostnames', '{play.get('hosts')}') }}}}"
        for task in play.get("tasks", []):
            role = task.get("ansible.builtin.import_role", {})
            if role.get("tasks_from") == "restore":
                hosts_by_part[restored_part(role["name"])] = hosts

    check = named("Check the archive", PLAYS)["tasks"][0]
    assert check["vars"]["archive_wanted"] == hosts_by_part


def restored_part(role_name):
    """Return the name of the archive's part that a role restores in tasks/restore.yml."""
    folder = ROOT / "roles" / role_name.removeprefix(COLLECTION)
    tasks = read_yaml(folder / "tasks/restore.yml")
    (block,) = tasks_with("block", tasks)
    part = block["block"][0]["vars"]["archive_part"]
    return part.replace("{{ inventory_hostname }}", "HOST")


def test_every_host_is_checked_before_any_host_changes():
    """tasks/vacant.yml of a role checks that the host has no data that would be replaced."""
    steps = [step_of(play) for play in PLAYS[:-1]]

    assert steps[:9] == ["import", "check", "import", *["vacant"] * 5, "secrets"]
    # The data on the shared storage can be checked only after the storage has been mounted.
    assert steps[9:].count("vacant") == 1
    mount = PLAYS.index(named("Run the shared storage", PLAYS))
    assert steps[mount + 1] == "vacant"


def step_of(play):
    """Return "import" for an imported playbook, else ``tasks_from`` of the play's first role."""
    if "ansible.builtin.import_playbook" in play:
        return "import"
    return play["tasks"][0]["ansible.builtin.import_role"].get("tasks_from")
