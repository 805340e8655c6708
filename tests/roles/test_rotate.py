# SPDX-License-Identifier: Apache-2.0
"""What playbooks/rotate.yml can be asked for, and the change of the MUNGE key on a host."""

import os
import re
import subprocess
import time

import pytest
import yaml
from tests.roles.catalogue import ROOT

ROTATE = yaml.safe_load((ROOT / "playbooks/rotate.yml").read_text())
FILES = ROTATE[0]["vars"]["__rotate_files_of"]
CHANGE = ROOT / "roles/munge/files/usr/local/sbin/gridstead-change-munge-key"
KNOWN = ROOT / "roles/slurm/files/usr/local/sbin/gridstead-node-is-known"


def test_what_is_not_known_or_left_out_is_refused_before_there_is_a_new_secret(tmp_path):
    secrets = tmp_path / "secrets"
    secrets.mkdir(mode=0o700)
    argv = [
        "ansible-playbook",
        "--inventory",
        "inventory/example",
        "playbooks/rotate.yml",
        "--tags",
        "mung",
    ]
    argv += ["--skip-tags", "munge", "-e", f"gridstead_secrets_dir={secrets}"]

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)

    said = " ".join(done.stdout.split())
    assert done.returncode != 0
    assert "--tags is mung; allowed are all, tls, renew, directory, database, jwt, munge." in said
    assert '--skip-tags is "munge"; ' in said
    assert list(secrets.iterdir()) == []


def test_each_secret_is_a_file_that_the_inventory_reads():
    read = "".join(path.read_text() for path in (ROOT / "inventory/group_vars/all").glob("*.yml"))

    assert [
        name for names in FILES.values() for name in names if not re.search(rf"/{name}\b", read)
    ] == []


def test_each_secret_has_a_play_that_brings_it_to_hosts():
    tags = {tag for play in ROTATE for tag in play.get("tags", [])}

    assert tags == {"always", "tls", "renew", *FILES}


def test_the_directory_knows_new_passwords_before_any_host_has_them():
    """Not even new certificates come first: they restart who reads a password."""
    knows = next(
        number for number, play in enumerate(ROTATE) if "retain the old" in str(play.get("tasks"))
    )
    others = {"sssd", "control_plane"}
    has = [
        number
        for number, play in enumerate(ROTATE)
        if others & {*re.findall(r"'name': '(\w+)'", str(play))}
    ]
    has += [number for number, play in enumerate(ROTATE) if "certificates.yml" in str(play)]

    assert len(has) == 3
    assert knows < min(has)


def test_new_certificates_bring_no_password():
    """One that a run before could not give the directory yet would lock its services out."""
    plays = yaml.safe_load((ROOT / "playbooks/certificates.yml").read_text())
    imports = [
        task["ansible.builtin.import_role"] for play in plays for task in play.get("tasks", [])
    ]

    brought = {entry["name"]: entry["tasks_from"] for entry in imports}
    assert brought == {"directory": "install", "sssd": "restart", "control_plane": "restart"}


@pytest.fixture
def change(tmp_path):
    """Run the change with its commands and the key in a folder; return what became of it."""
    log, key, known = (tmp_path / name for name in ("log", "munge.key", "known"))
    commands = {
        "systemctl": f'echo "$(date +%s) $* $(cat {key})" >>{log}',
        "nft": f'echo "$(date +%s) nft ${{1%% *}} $(cat {key})" >>{log}',
        # They may not at first.
        "until": f"test -e {known} || {{ touch {known}; false; }}",
    }
    for name, does in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    program = tmp_path / "change"
    program.write_text(CHANGE.read_text().replace("/etc/munge/munge.key", str(key)))
    key.write_text("old")

    def changed(*words):
        environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", program, *words], env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, log.read_text().splitlines(), key.read_text()

    return changed


def test_what_starts_jobs_is_stopped_while_the_key_changes(change, tmp_path):
    (tmp_path / "munge.key.next").write_text("new")
    moment = int(time.time()) + 1

    code, log, key = change(str(moment), "stop", "slurmctld.service")

    done = [line.split(" ", 1) for line in log]
    assert (code, key) == (0, "new")
    assert [what for _, what in done] == [
        "stop slurmctld.service old",
        "restart munge.service new",
        "start slurmctld.service new",
    ]
    _, restarted, started = (int(at) for at, _ in done)
    assert moment <= restarted < started


def test_what_starts_jobs_runs_again_though_the_key_could_not_change(change):
    code, log, key = change(str(int(time.time())), "stop", "slurmctld.service")

    assert (code != 0, key) == (True, "old")
    assert [line.split(" ", 1)[1] for line in log] == [
        "stop slurmctld.service old",
        "start slurmctld.service old",
    ]


def test_users_wait_until_a_program_lets_them(change, tmp_path):
    (tmp_path / "munge.key.next").write_text("new")

    code, log, key = change(str(int(time.time()) + 1), "hold", "200001-999999", "6817", "until")

    assert (code, key) == (0, "new")
    assert [line.split(" ", 1)[1] for line in log] == [
        "nft add old",
        "restart munge.service new",
        "nft delete new",
    ]
    assert (tmp_path / "known").exists()


def test_users_do_not_wait_for_ever(change, tmp_path):
    code, log, key = change(str(int(time.time()) - 20), "hold", "200001-999999", "6817", "until")

    assert (code != 0, key) == (True, "old")
    assert [line.split(" ", 1)[1] for line in log] == ["nft add old", "nft delete old"]


def test_a_host_without_such_units_changes_its_key_alone(change, tmp_path):
    (tmp_path / "munge.key.next").write_text("new")

    code, log, key = change(str(int(time.time())))

    assert (code, key) == (0, "new")
    assert [line.split(" ", 1)[1] for line in log] == ["restart munge.service new"]


@pytest.mark.parametrize(("started", "code"), [("2026-11-22T01:02:03", 0), ("None", 1), ("", 1)])
def test_a_node_is_known_once_slurmctld_has_heard_of_it_since_its_start(tmp_path, started, code):
    said = f"NodeName=a SlurmdStartTime={started}" if started else ""
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho {said}\ntest '{started}'\n")
    (tmp_path / "scontrol").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    assert subprocess.run([KNOWN], env=environment, check=False).returncode == code
