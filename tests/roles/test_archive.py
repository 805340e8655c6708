# SPDX-License-Identifier: Apache-2.0
"""The parts of an archive: their encryption, the copies of running services, and the playbooks.

test_archive_manifest.py tests the manifest of an archive.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
import time

import pytest
from ansible_collections.gridstead.site.plugins.modules import archive_manifest as manifest
from tests.roles.catalogue import COLLECTION, ROOT, playbook_plays, roles
from tests.roles.content import names_in, tasks_with, texts_below
from tests.yaml_files import read_yaml

BACKED_UP_ROLES = [role for role in roles() if "backup" in role.entry_points]


@pytest.fixture
def keys(tmp_path):
    """The key file of the archive's owner, and another key file."""
    files = [tmp_path / "owner", tmp_path / "other"]
    for file in files:
        subprocess.run(["age-keygen", "--output", file], check=True, capture_output=True)
    return files


def run(command):
    """Run a command like AnsibleModule.run_command: return exit code, stdout and stderr."""
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    return result.returncode, result.stdout, result.stderr


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
        f"archive_identity_file {other_key} cannot decrypt archive {tmp_path.name},"
        f" which is encrypted for {recipient}: "
    )


def test_the_copy_of_a_journal_is_consistent_during_writes(tmp_path):
    """The copy contains the data of the write-ahead log, but no file of the log."""
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

    program = ROOT / "roles/control_plane/files/copy-state.py"
    argv = [sys.executable, program, tmp_path / "stage", service, tmp_path / "absent"]
    subprocess.run(argv, check=True)

    journal.close()
    copy = tmp_path / "stage" / service.relative_to("/")
    assert names_in(copy) == {"note", "state.db"}
    assert (copy / "note").stat().st_mode & 0o777 == 0o640
    with sqlite3.connect(copy / "state.db") as database:
        assert database.execute("SELECT reason FROM journal").fetchall() == [("written",)]


def run_script(role, name, *arguments, **options):
    """Run a shell script of a role. The options are those of subprocess.run."""
    path = ROOT / f"roles/{role}/files/{name}.sh"
    subprocess.run(["bash", path, *map(str, arguments)], check=True, **options)


def test_an_encrypted_part_is_decrypted_unchanged(tmp_path, keys):
    owner_key, other_key = keys
    recipient = run(["age-keygen", "-y", owner_key])[1].strip()
    stage = tmp_path / "stage"
    decrypted_folder = tmp_path / "decrypted"
    part = tmp_path / "part.age"
    stage.mkdir()
    decrypted_folder.mkdir()
    (stage / "secret").write_text("kept")
    (stage / "secret").chmod(0o640)
    (stage / "excluded file").touch()

    run_script("archive", "seal-part", stage, recipient, part, "--exclude=./excluded file")

    assert part.stat().st_mode & 0o777 == 0o600
    with pytest.raises(subprocess.CalledProcessError):
        run_script("archive", "open-part", part, decrypted_folder, input=other_key.read_bytes())
    run_script("archive", "open-part", part, decrypted_folder, input=owner_key.read_bytes())
    assert names_in(decrypted_folder) == {"secret"}
    assert (decrypted_folder / "secret").read_text() == "kept"
    assert (decrypted_folder / "secret").stat().st_mode & 0o777 == 0o640


def test_a_missing_folder_is_not_archived(tmp_path, keys):
    recipient = run(["age-keygen", "-y", keys[0]])[1].strip()

    with pytest.raises(subprocess.CalledProcessError):
        run_script("archive", "seal-part", tmp_path / "absent", recipient, tmp_path / "part.age")


def run_entry_point(name, folder, *options, **environment):
    """Run an entry point of role archive on this machine and return the result of Ansible."""
    import_role = {
        "name": "Run the entry point",
        "ansible.builtin.import_role": {"name": "gridstead.site.archive", "tasks_from": name},
    }
    report = {
        "name": "Report the start of the archive",
        "ansible.builtin.debug": {
            "msg": "began at {{ __archive_new_archive.began_at | default(0) }}."
        },
    }
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [import_role, report]}
    (folder / "play.yml").write_text(json.dumps([play]))
    argv = ["ansible-playbook", "--connection=local", "--inventory=localhost,"]
    argv += [str(folder / "play.yml"), *options]
    return subprocess.run(
        argv,
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ([], 2),
        (["-e", "archive_replace=false"], 2),
        (["-e", "archive_replace=true"], 0),
    ],
)
def test_data_is_replaced_only_with_an_option_on_the_command_line(tmp_path, options, status):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").touch()
    variables = {"archive_places": [str(tmp_path / "data")], "archive_units": []}

    result = run_entry_point("vacant", tmp_path, "-e", json.dumps(variables), *options)

    assert result.returncode == status, result.stdout
    is_refused = "Set -e archive_replace=true" in " ".join(result.stdout.split())
    assert is_refused is (status != 0)


def test_the_age_of_an_archive_does_not_depend_on_the_time_zone(tmp_path):
    (tmp_path / "secrets").mkdir()
    variables = {
        "archive_dir": str(tmp_path),
        "archive_secrets_dir": str(tmp_path / "secrets"),
        "archive_site": "mysite",
        "archive_identity_file": str(tmp_path / "key"),
    }

    result = run_entry_point("begin", tmp_path, "-e", json.dumps(variables), TZ="Asia/Tokyo")

    began_at = re.search(r"began at (\d+)[.]", result.stdout)
    assert began_at, result.stdout
    assert time.time() - 600 < int(began_at[1]) <= time.time()


def test_slurmctlds_state_is_copied_without_environments_and_restored(tmp_path):
    """The restored state has the marker ``restored`` and no marker of a clean stop."""
    old, stage, new = tmp_path / "old", tmp_path / "stage", tmp_path / "new"
    job = old / "hash.7" / "job.17"
    job.mkdir(parents=True)
    for name in ("script", "environment"):
        (job / name).write_text(name)
    for name in ("job_state", "stopped_cleanly"):
        (old / name).write_text(name)
    stage.mkdir()
    (stage / "of_a_failed_run").touch()
    new.mkdir()
    (new / "job_state").write_text("replaced")
    (new / "node_state").touch()

    run_script("slurm", "copy-state", old, stage)
    run_script("slurm", "put-state-back", stage, new)

    assert texts_below(new) == {
        "hash.7/job.17/script": "script",
        "job_state": "job_state",
        "restored": "",
    }


def test_slurmctlds_state_is_copied_while_jobs_change(tmp_path):
    state, copy = tmp_path / "state", tmp_path / "copy"
    for number in range(2_000):
        job = state / f"hash.{number % 10}" / f"job.{number}"
        job.mkdir(parents=True)
        (job / "script").touch()
    (state / "job_state").touch()
    remove_jobs = f"for i in {{0..1999}}; do rm -r {state}/hash.$((i % 10))/job.$i; done"

    with subprocess.Popen(["bash", "-c", remove_jobs]):
        run_script("slurm", "copy-state", state, copy)

    assert (copy / "job_state").exists()


def test_a_missing_state_is_not_copied(tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        run_script("slurm", "copy-state", tmp_path / "absent", tmp_path / "copy")


def test_only_the_services_own_folders_are_restored(tmp_path):
    """Parent folders keep their mode and their other files. A folder that is not in the archive is
    removed.
    """
    host, stage = tmp_path / "host", tmp_path / "stage"
    wallets, keys = host / "etc" / "wallets", host / "etc" / "ssh"
    for folder in (wallets, keys):
        folder.mkdir(parents=True)
        (folder / "present").touch()
    (host / "etc" / "other").touch()
    (host / "etc").chmod(0o755)
    staged_wallets = stage / wallets.relative_to("/")
    staged_wallets.mkdir(parents=True, mode=0o700)
    (staged_wallets / "archived").touch(mode=0o600)

    run_script("control_plane", "put-back", stage, wallets, keys)

    assert texts_below(host).keys() == {"etc/other", "etc/wallets/archived"}
    assert (host / "etc").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("role", BACKED_UP_ROLES, ids=lambda role: role.name)
def test_every_part_of_a_backup_is_checked_and_restored(role):
    """Entry point vacant checks that the restoration would replace no data."""
    assert "backup" in entry_points_of("backup", role)
    assert {"vacant", "restore"} <= entry_points_of("restore", role)


def entry_points_of(playbook, role):
    """Return the entry points of a role that a playbook imports."""
    names = set()
    for imported_role in imported_roles(playbook):
        if imported_role["name"] == COLLECTION + role.name:
            names.add(imported_role.get("tasks_from"))
    return names


def imported_roles(playbook):
    """Yield the arguments of each import_role of a playbook, in order."""
    for play in playbook_plays(playbook):
        for task in tasks_with("ansible.builtin.import_role", play.get("tasks", [])):
            yield task["ansible.builtin.import_role"]


@pytest.mark.parametrize("name", ["backup", "restore"])
@pytest.mark.parametrize("role", BACKED_UP_ROLES, ids=lambda role: role.name)
def test_no_stage_folder_remains_after_success_or_failure(role, name):
    tasks = read_yaml(role.path / f"tasks/{name}.yml")

    (block,) = tasks_with("block", tasks)
    (task,) = tasks_with("ansible.builtin.import_role", block["always"])
    assert task["ansible.builtin.import_role"] == {
        "name": "gridstead.site.archive",
        "tasks_from": "clear",
    }


def test_data_is_backed_up_before_the_data_that_it_refers_to():
    names = [role["name"].removeprefix(COLLECTION) for role in imported_roles("backup")]

    # Role archive begins and completes the archive.
    assert names == [
        "archive",
        "control_plane",
        "slurm",
        "database",
        "directory",
        "devnet",
        "archive",
    ]
