# SPDX-License-Identifier: Apache-2.0
"""The archive of a site: complete and refused archives, and copies of running services."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import time

import pytest
import yaml
from ansible_collections.gridstead.site.plugins.modules import archive_manifest as manifest
from tests.roles.catalogue import COLLECTION, ROOT, roles

KEEPERS = [role for role in roles() if "backup" in role.entry_points]


HEAD = {"name": "20260102T030405Z", "site": "mysite", "began_at": 1_000, "recipient": "age1owner"}
PARTS = [
    {"name": name, "host": "db", "packages": {"slurmctld": "24.11.5-4"}}
    for name in ("database", "slurm")
]


@pytest.fixture
def begun(tmp_path):
    """The folder of an unfinished archive."""
    folder = tmp_path / ".20260102T030405Z.part"
    folder.mkdir()
    for part in PARTS:
        (folder / f"{part['name']}.age").write_text(f"sealed {part['name']}")
    return folder


@pytest.fixture
def archive(begun):
    """A complete archive."""
    manifest.write_manifest(begun, HEAD, PARTS, lambda: 1_007.9)
    return begun.parent / HEAD["name"]


def refused(folder, site="mysite"):
    with pytest.raises(manifest.Refusal) as caught:
        manifest.read_manifest(folder, site)
    return str(caught.value)


def test_an_archive_gets_its_final_name_when_it_is_complete(begun, archive):
    checked = manifest.read_manifest(archive, "mysite")

    assert not begun.exists()
    assert (checked["format"], checked["finished_at"], sorted(checked["parts"])) == (
        1,
        1_007,
        ["database", "slurm"],
    )
    assert checked["parts"]["slurm"]["packages"] == {"slurmctld": "24.11.5-4"}


def test_only_the_owner_can_read_an_archive(archive):
    assert {path.stat().st_mode & 0o777 for path in archive.iterdir()} == {0o600}


def test_an_archive_with_a_missing_part_is_not_finished(begun):
    (begun / "slurm.age").unlink()

    with pytest.raises(manifest.Refusal, match="but must contain"):
        manifest.write_manifest(begun, HEAD, PARTS, lambda: 0)

    assert begun.exists()


def test_an_archive_never_replaces_another_archive(begun):
    (begun.parent / HEAD["name"]).mkdir()

    with pytest.raises(manifest.Refusal, match="exists already"):
        manifest.write_manifest(begun, HEAD, PARTS, lambda: 0)


def test_an_incomplete_folder_is_refused_and_the_archives_are_named(begun):
    whole = begun.parent / "20260101T000000Z"
    whole.mkdir()
    (whole / "manifest.json").write_text("{}")

    assert refused(begun.parent / HEAD["name"]).endswith(
        "is not an archive: it has no manifest.json. Existing archives: 20260101T000000Z"
    )


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"format": 1, "site": "mysite", "parts": {"slurm": 1}}',
        '{"format": 1, "site": "mysite", "parts": {}}',
    ],
)  # fmt: skip
def test_an_unreadable_manifest_is_refused(archive, text):
    (archive / "manifest.json").write_text(text)

    assert "is damaged: its manifest.json cannot be read" in refused(archive)


def test_a_newer_format_is_refused(archive):
    content = json.loads((archive / "manifest.json").read_text())
    (archive / "manifest.json").write_text(json.dumps(content | {"format": 2}))

    assert "has format 2; this version of Gridstead reads 1" in refused(archive)


def test_an_archive_of_another_site_is_refused(archive):
    assert "is of site mysite, not of site other" in refused(archive, "other")


def test_a_missing_part_is_refused(archive):
    (archive / "slurm.age").unlink()

    assert refused(archive).endswith("is damaged: part slurm is missing")


def test_a_part_with_a_changed_byte_is_refused(archive):
    (archive / "slurm.age").write_text("sealed slurN")

    assert refused(archive).endswith("is damaged: the checksum of part slurm is wrong")


def test_a_truncated_part_is_refused(archive):
    (archive / "slurm.age").write_text("sealed")

    assert refused(archive).endswith("is damaged: part slurm has 6 bytes, expected 12")


@pytest.fixture
def keys(tmp_path):
    """The key of the archive, and another key."""
    made = [tmp_path / "owners", tmp_path / "other"]
    for key in made:
        subprocess.run(["age-keygen", "--output", key], check=True, capture_output=True)
    return made


def run(command):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_wrong_key_is_refused_and_the_right_key_is_named(tmp_path, keys):
    owner_key, other_key = keys
    recipient = run(["age-keygen", "-y", owner_key])[1].strip()
    (tmp_path / "slurm").write_text("state")
    run(["age", "--recipient", recipient, "--output", tmp_path / "slurm.age", tmp_path / "slurm"])
    content = {"recipient": recipient, "parts": {"slurm": {}}}

    manifest.check_decryption(tmp_path, content, str(owner_key), run)
    with pytest.raises(manifest.Refusal) as caught:
        manifest.check_decryption(tmp_path, content, str(other_key), run)

    assert str(caught.value).startswith(
        f"archive_identity_file {other_key} cannot decrypt archive {tmp_path.name}, which is encrypted for {recipient}: "
    )


def test_the_copy_of_a_journal_is_consistent_during_writes(tmp_path):
    """The copy contains the data of the write-ahead log, but not the log itself."""
    service = tmp_path / "service"
    service.mkdir()
    (service / "note").write_text("kept")
    (service / "note").chmod(0o640)
    journal = sqlite3.connect(service / "state.db")
    journal.execute("PRAGMA journal_mode = WAL")
    journal.execute("CREATE TABLE journal (reason TEXT)")
    journal.execute("INSERT INTO journal VALUES ('written')")
    journal.commit()
    journal.execute("INSERT INTO journal VALUES ('being written')")

    script = ROOT / "roles/control_plane/files/copy-state.py"
    subprocess.run(
        [sys.executable, script, tmp_path / "stage", service, tmp_path / "absent"], check=True
    )

    journal.close()
    copied = tmp_path / "stage" / service.relative_to("/")
    assert sorted(path.name for path in copied.iterdir()) == ["note", "state.db"]
    assert (copied / "note").stat().st_mode & 0o777 == 0o640
    with sqlite3.connect(copied / "state.db") as database:
        assert database.execute("SELECT reason FROM journal").fetchall() == [("written",)]


def script(role, name, *arguments, **given):
    subprocess.run(
        ["bash", ROOT / f"roles/{role}/files/{name}.sh", *map(str, arguments)], check=True, **given
    )


def test_an_encrypted_part_is_decrypted_unchanged(tmp_path, keys):
    owner_key, other_key = keys
    recipient = run(["age-keygen", "-y", owner_key])[1].strip()
    stage, opened, sealed = tmp_path / "stage", tmp_path / "opened", tmp_path / "part.age"
    stage.mkdir()
    opened.mkdir()
    (stage / "secret").write_text("kept")
    (stage / "secret").chmod(0o640)
    (stage / "not this").touch()

    script("archive", "seal-part", stage, recipient, sealed, "--exclude=./not this")

    assert sealed.stat().st_mode & 0o777 == 0o600
    with pytest.raises(subprocess.CalledProcessError):
        script("archive", "open-part", sealed, opened, input=other_key.read_bytes())
    script("archive", "open-part", sealed, opened, input=owner_key.read_bytes())
    assert [path.name for path in opened.iterdir()] == ["secret"]
    assert (opened / "secret").read_text() == "kept"
    assert (opened / "secret").stat().st_mode & 0o777 == 0o640


def test_a_missing_folder_is_not_archived(tmp_path, keys):
    recipient = run(["age-keygen", "-y", keys[0]])[1].strip()

    with pytest.raises(subprocess.CalledProcessError):
        script("archive", "seal-part", tmp_path / "absent", recipient, tmp_path / "part.age")


def entry_point(name, folder, *options, **environment):
    """Run an entry point of the role on this machine and return Ansible's output."""
    role = {"name": "gridstead.site.archive", "tasks_from": name}
    content = {
        "name": "Tell",
        "ansible.builtin.debug": {
            "msg": "began at {{ __archive_new_archive.began_at | default(0) }}."
        },
    }
    play = {"name": "Try", "hosts": "localhost", "gather_facts": False}
    play["tasks"] = [{"name": "Try", "ansible.builtin.import_role": role}, content]
    (folder / "play.yml").write_text(json.dumps([play]))
    argv = [
        "ansible-playbook",
        "-c",
        "local",
        "-i",
        "localhost,",
        str(folder / "play.yml"),
        *options,
    ]
    return subprocess.run(
        argv, cwd=ROOT, check=False, capture_output=True, text=True, env={**os.environ, **environment}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "status"),
    [((), 2), (("archive_replace=false",), 2), (("archive_replace=true",), 0)],
)
def test_data_is_replaced_only_with_an_option_on_the_command_line(tmp_path, options, status):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").touch()
    given = {"archive_places": [str(tmp_path / "data")], "archive_units": []}

    done = entry_point(
        "vacant",
        tmp_path,
        "-e",
        json.dumps(given),
        *(word for option in options for word in ("-e", option)),
    )

    assert done.returncode == status, done.stdout
    assert ("Set -e archive_replace=true" in " ".join(done.stdout.split())) == bool(status)


def test_the_age_of_an_archive_does_not_depend_on_the_time_zone(tmp_path):
    (tmp_path / "secrets").mkdir()
    given = {
        "archive_dir": str(tmp_path),
        "archive_secrets_dir": str(tmp_path / "secrets"),
        "archive_site": "mysite",
    }
    given["archive_identity_file"] = str(tmp_path / "key")

    done = entry_point("begin", tmp_path, "-e", json.dumps(given), TZ="Asia/Tokyo")

    began_at = re.search(r"began at (\d+)[.]", done.stdout)
    assert began_at, done.stdout
    assert time.time() - 600 < int(began_at[1]) <= time.time()


def test_slurmctlds_state_is_copied_without_job_files_and_restored(
    tmp_path,
):
    old, stage, new = tmp_path / "old", tmp_path / "stage", tmp_path / "new"
    job = old / "hash.7" / "job.17"
    job.mkdir(parents=True)
    for name in ("script", "environment"):
        (job / name).write_text(name)
    for name in ("job_state", "stopped_cleanly"):
        (old / name).write_text(name)
    stage.mkdir()
    (stage / "of_a_failed_try").touch()
    new.mkdir()
    (new / "job_state").write_text("of now")
    (new / "node_state").touch()

    script("slurm", "copy-state", old, stage)
    script("slurm", "put-state-back", stage, new)

    checked = {
        str(path.relative_to(new)): path.read_text() for path in new.rglob("*") if path.is_file()
    }
    assert checked == {"hash.7/job.17/script": "script", "job_state": "job_state", "restored": ""}


def test_slurmctlds_state_is_copied_while_jobs_change(tmp_path):
    state, copy = tmp_path / "state", tmp_path / "copy"
    for number in range(2_000):
        (state / f"hash.{number % 10}" / f"job.{number}").mkdir(parents=True)
        (state / f"hash.{number % 10}" / f"job.{number}" / "script").touch()
    (state / "job_state").touch()
    churn = f"for i in {{0..1999}}; do rm -r {state}/hash.$((i % 10))/job.$i; done"

    with subprocess.Popen(["bash", "-c", churn]):
        script("slurm", "copy-state", state, copy)

    assert (copy / "job_state").exists()


def test_a_missing_state_is_not_copied(tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        script("slurm", "copy-state", tmp_path / "absent", tmp_path / "copy")


def test_only_the_services_own_folders_are_restored(tmp_path):
    """Parent folders keep their mode and their other files. A folder that is not in the archive is
    removed.
    """
    host, stage = tmp_path / "host", tmp_path / "stage"
    wallets, keys = host / "etc" / "wallets", host / "etc" / "ssh"
    for folder in (wallets, keys):
        folder.mkdir(parents=True)
        (folder / "of_now").touch()
    (host / "etc" / "else").touch()
    (host / "etc").chmod(0o755)
    staged = stage / wallets.relative_to("/")
    staged.mkdir(parents=True, mode=0o700)
    (staged / "of_then").touch(mode=0o600)

    script("control_plane", "put-back", stage, wallets, keys)

    assert sorted(str(path.relative_to(host)) for path in host.rglob("*") if path.is_file()) == [
        "etc/else",
        "etc/wallets/of_then",
    ]
    assert (host / "etc").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("role", KEEPERS, ids=lambda role: role.name)
def test_every_part_of_a_backup_is_checked_and_restored(role):
    plays = {
        name: yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text())
        for name in ("backup", "restore")
    }
    called = {
        (name, task["ansible.builtin.import_role"].get("tasks_from"))
        for name, listed in plays.items()
        for play in listed
        for task in play.get("tasks", [])
        if task.get("ansible.builtin.import_role", {}).get("name") == COLLECTION + role.name
    }

    assert {("backup", "backup"), ("restore", "vacant"), ("restore", "restore")} <= called


@pytest.mark.parametrize("name", ["backup", "restore"])
@pytest.mark.parametrize("role", KEEPERS, ids=lambda role: role.name)
def test_no_stage_folder_remains_after_success_or_failure(role, name):
    (block,) = (
        task
        for task in yaml.safe_load((role.path / f"tasks/{name}.yml").read_text())
        if "block" in task
    )

    called = [task.get("ansible.builtin.import_role") for task in block["always"]]
    assert {"name": "gridstead.site.archive", "tasks_from": "clear"} in called


def test_referring_data_is_backed_up_before_the_data_it_refers_to():
    plays = yaml.safe_load((ROOT / "playbooks/backup.yml").read_text())
    order = [
        task["ansible.builtin.import_role"]["name"].removeprefix(COLLECTION)
        for play in plays
        for task in play.get("tasks", [])
    ]

    assert order == [
        "archive",
        "control_plane",
        "slurm",
        "database",
        "directory",
        "devnet",
        "archive",
    ]
