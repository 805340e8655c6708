# SPDX-License-Identifier: Apache-2.0
"""Tests of playbooks/rotate.yml, which changes secrets, and of the MUNGE key's change on a host."""

import os
import re
import subprocess
import time

import pytest
from tests.roles.catalogue import ROOT, playbook_plays
from tests.yaml_files import read_yaml

ROTATE = playbook_plays("rotate")
FILES = ROTATE[0]["vars"]["__rotate_files_by_tag"]
CHANGE = ROOT / "roles/munge/files/usr/local/sbin/gridstead-change-munge-key"
NODE_IS_KNOWN = ROOT / "roles/slurm/files/usr/local/sbin/gridstead-node-is-known"


def test_unknown_and_missing_arguments_are_refused_before_any_change(tmp_path):
    secrets = tmp_path / "secrets"
    secrets.mkdir(mode=0o700)
    argv = ["ansible-playbook", "--inventory=inventory/example", "playbooks/rotate.yml"]
    argv += ["--tags=mung", "--skip-tags=munge", "-e", f"gridstead_secrets_dir={secrets}"]

    result = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )

    output = " ".join(result.stdout.split())
    assert result.returncode != 0
    assert "--tags is mung; allowed are all, tls, renew, directory, database, jwt, munge." in output
    assert '--skip-tags is "munge"; ' in output
    assert list(secrets.iterdir()) == []


def test_the_inventory_reads_the_file_of_each_secret():
    files = (ROOT / "inventory/group_vars/all").glob("*.yml")
    variables = "".join(path.read_text() for path in files)

    for names in FILES.values():
        for name in names:
            assert re.search(rf"/{name}\b", variables)


def test_each_secret_has_a_play_that_distributes_it():
    tags = set()
    for play in ROTATE:
        tags |= set(play.get("tags", []))

    assert tags == {"always", "tls", "renew", *FILES}


def test_the_ldap_directory_gets_new_passwords_before_the_hosts():
    """New certificates follow later, because they restart services that read a password."""
    directory_play = find_plays("retain the old")[0]
    client_plays = find_plays(r"'name': 'gridstead\.site\.sssd'")
    client_plays += find_plays(r"'name': 'gridstead\.site\.control_plane'")
    client_plays += find_plays(r"certificates\.yml")

    assert len(client_plays) == 3
    assert directory_play < min(client_plays)


def find_plays(pattern):
    """Return the positions of the plays of rotate.yml that contain a pattern."""
    return [number for number, play in enumerate(ROTATE) if re.search(pattern, str(play))]


def test_certificate_rotation_changes_no_password():
    """A service could not log in with a new password that the LDAP directory does not have yet."""
    plays = read_yaml(ROOT / "playbooks/certificates.yml")
    entry_points = {}
    for play in plays:
        for task in play.get("tasks", []):
            role = task["ansible.builtin.import_role"]
            entry_points[role["name"]] = role["tasks_from"]

    assert entry_points == {
        "gridstead.site.directory": "install",
        "gridstead.site.sssd": "restart",
        "gridstead.site.control_plane": "restart",
    }


@pytest.fixture
def change(tmp_path):
    """Return a function that runs gridstead-change-munge-key with fake commands.

    The function returns the exit code, the lines of the log, and the content of the key file. A
    line of the log consists of a time, the command, and the key at that time.
    """
    log = tmp_path / "log"
    key = tmp_path / "munge.key"
    was_called = tmp_path / "was-called"
    commands = {
        "systemctl": f'echo "$(date +%s) $* $(cat {key})" >>{log}',
        "nft": f'echo "$(date +%s) nft ${{1%% *}} $(cat {key})" >>{log}',
        # Users are blocked until this program succeeds. The first call of the program fails.
        "until": f"test -e {was_called} || {{ touch {was_called}; false; }}",
    }
    for name, script in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    program = tmp_path / "change"
    program.write_text(CHANGE.read_text().replace("/etc/munge/munge.key", str(key)))
    key.write_text("old")

    def run_change(*words):
        environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        result = subprocess.run(
            ["bash", program, *words], env=environment, capture_output=True, text=True, check=False
        )
        return result.returncode, log.read_text().splitlines(), key.read_text()

    return run_change


def test_services_that_start_jobs_are_stopped_during_the_change(change, tmp_path):
    (tmp_path / "munge.key.next").write_text("new")
    moment = int(time.time()) + 1

    code, log, key = change(str(moment), "stop", "slurmctld.service")

    assert (code, key) == (0, "new")
    assert commands_of(log) == [
        "stop slurmctld.service old",
        "restart munge.service new",
        "start slurmctld.service new",
    ]
    _, restarted_at, started_at = map(time_of, log)
    assert moment <= restarted_at < started_at


def time_of(line):
    """Return the time of a line of the log."""
    return int(line.partition(" ")[0])


def commands_of(log):
    """Return the commands of the log without their times."""
    return [line.split(" ", 1)[1] for line in log]


def test_services_that_start_jobs_run_again_after_a_failed_change(change):
    code, log, key = change(str(int(time.time())), "stop", "slurmctld.service")

    assert code != 0
    assert key == "old"
    assert commands_of(log) == [
        "stop slurmctld.service old",
        "start slurmctld.service old",
    ]


def test_users_are_blocked_until_the_program_succeeds(change, tmp_path):
    (tmp_path / "munge.key.next").write_text("new")

    code, log, key = change(str(int(time.time()) + 1), "hold", "200001-999999", "6817", "until")

    assert (code, key) == (0, "new")
    assert commands_of(log) == [
        "nft add old",
        "restart munge.service new",
        "nft delete new",
    ]
    assert (tmp_path / "was-called").exists()


def test_the_block_of_users_ends_at_its_time_limit(change, tmp_path):
    """The time limit has passed at the first call of the program. There is no new key."""
    code, log, key = change(str(int(time.time()) - 20), "hold", "200001-999999", "6817", "until")

    assert code != 0
    assert key == "old"
    assert commands_of(log) == ["nft add old", "nft delete old"]


def test_munge_alone_is_restarted_if_the_arguments_name_no_units(change, tmp_path):
    (tmp_path / "munge.key.next").write_text("new")

    code, log, key = change(str(int(time.time())))

    assert (code, key) == (0, "new")
    assert commands_of(log) == ["restart munge.service new"]


@pytest.mark.parametrize(("started", "code"), [("2026-11-22T01:02:03", 0), ("None", 1), ("", 1)])
def test_a_node_is_ready_after_it_registered_with_slurmctld(tmp_path, started, code):
    output = f"NodeName=a SlurmdStartTime={started}" if started else ""
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho {output}\ntest '{started}'\n")
    (tmp_path / "scontrol").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    assert subprocess.run([NODE_IS_KNOWN], env=environment, check=False).returncode == code
