# SPDX-License-Identifier: Apache-2.0
"""The checks of a restoration before it changes hosts, and their messages."""

import json
import subprocess

import pytest
import yaml
from ansible_collections.gridstead.site.plugins.modules import archive_manifest as manifest
from tests.roles.catalogue import COLLECTION, ROOT

HEAD = {"name": "20260102T030405Z", "site": "mysite", "began_at": 1_000, "recipient": "age1owner"}
PLAYS = yaml.safe_load((ROOT / "playbooks/restore.yml").read_text())


@pytest.fixture
def archive(tmp_path):
    """An archive with two parts."""
    begun = tmp_path / "begun"
    begun.mkdir()
    parts = [{"name": name, "host": "db", "packages": {}} for name in ("database", "slurm")]
    for part in parts:
        (begun / f"{part['name']}.age").write_text("sealed")
    manifest.write_manifest(begun, HEAD, parts, lambda: 1_007.9)
    return tmp_path / HEAD["name"]


def restoration(folder, **given):
    """Restore the example from the archive of a folder and return Ansible's output. No host is
    reached.
    """
    (folder / "backup-key").touch()
    given |= {
        "archive_dir": str(folder),
        "archive_name": HEAD["name"],
        "gridstead_secrets_dir": str(folder),
    }
    given |= {"archive_identity_file": str(folder / "backup-key")}
    command = [
        "ansible-playbook",
        "-i",
        "inventory/example",
        "playbooks/restore.yml",
        "-e",
        json.dumps(given),
    ]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert result.returncode != 0
    assert "unreachable=1" not in result.stdout
    return " ".join(result.stdout.split())


def test_a_restoration_reports_missing_variables_before_any_host(tmp_path):
    """The control machine is not in the inventory and still has the site's name."""
    assert "is not an archive: it has no manifest.json" in restoration(tmp_path)


def test_a_restoration_names_missing_parts_before_any_host(archive):
    """A host had another name when the archive was created."""
    output = restoration(archive.parent, archive_site="mysite")

    assert (
        "lacks control_plane-control of host control, control_plane-controller of host controller,"
        " control_plane-infra of host infra, directory of host infra, secrets of host localhost; it has database, slurm"
    ) in output


def test_an_archive_with_all_required_parts_is_accepted(archive):
    read = manifest.read_manifest(archive, "mysite")

    manifest.check_parts(archive, read, {"slurm": ["db"], "devnet": [], "control_plane-HOST": []})


@pytest.mark.parametrize(
    ("required", "lacking"),
    [
        ({"slurm": ["db"], "devnet": ["chain"]}, "devnet of host chain"),
        (
            {"kept-HOST": ["ash", "birch"], "slurm": ["db"]},
            "kept-ash of host ash, kept-birch of host birch",
        ),
    ],
)
def test_an_archive_without_a_required_part_is_refused(archive, required, lacking):
    read = manifest.read_manifest(archive, "mysite")

    with pytest.raises(
        manifest.Refusal, match=f" lacks {lacking}; it has database, slurm[.] Restore with"
    ):
        manifest.check_parts(archive, read, required)


def test_the_required_parts_match_the_plays():
    taken = {"secrets": ["localhost"]}
    for play in PLAYS:
        for task in play.get("tasks", []):
            role = task.get("ansible.builtin.import_role", {})
            if role.get("tasks_from") == "restore":
                name = role["name"].removeprefix(COLLECTION)
                tasks = yaml.safe_load((ROOT / f"roles/{name}/tasks/restore.yml").read_text())
                (block,) = (task for task in tasks if "block" in task)
                part = block["block"][0]["vars"]["archive_part"].replace(
                    "{{ inventory_hostname }}", "HOST"
                )
                taken[part] = (
                    f"{{{{ query('ansible.builtin.inventory_hostnames', '{play['hosts']}') }}}}"
                )

    (check,) = (play["tasks"][0] for play in PLAYS if play["name"] == "Check the archive")
    assert check["vars"]["archive_wanted"] == taken


def test_every_host_is_checked_before_any_host_changes():
    kinds = [
        "import"
        if "ansible.builtin.import_playbook" in play
        else play["tasks"][0]["ansible.builtin.import_role"].get("tasks_from")
        for play in PLAYS[:-1]
    ]

    assert kinds[:9] == ["import", "check", "import", *["vacant"] * 5, "secrets"]
    # What is on storage is seen when that is mounted.
    mounted = [play["name"] for play in PLAYS].index("Run the shared storage")
    assert [place for place, kind in enumerate(kinds) if kind == "vacant"][5:] == [mounted + 1]
