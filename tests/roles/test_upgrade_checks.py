# SPDX-License-Identifier: Apache-2.0
"""Upgrades with a fake Slurm: a cluster that does not answer, and the archive before."""

import hashlib
import json
import os
import re
import subprocess

import pytest
import yaml
from tests.roles.catalogue import ROOT, playbook_plays

PLAYBOOKS = ROOT / "playbooks"
WELL = "compute1|idle|\ncompute2|mixed|\n"
HEARD = "DBD Agent queue size: 0\n"
REFUSED = "slurmctld has records that it has not sent to slurmdbd yet"


class Cluster:
    """Two hosts that are this machine, one unreachable host, and fake Slurm programs."""

    def __init__(self, folder, **away):
        self.folder = folder
        self.says("sinfo", WELL)
        self.says("sdiag", HEARD)
        here = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        }
        groups = {
            f"slurm_{name}": {"hosts": {"ash": here}}
            for name in ("controller", "accounting", "login")
        }
        groups |= {"slurm_compute": {"hosts": {"ash": None, "birch": here}}}
        for name, host in away.items():
            groups[name]["hosts"][host] = {"ansible_host": "127.0.0.1", "ansible_port": 1}
        groups |= {"slurm": {"children": dict.fromkeys(groups)}}
        known = {"base_groups": {"slurm_backup_controller": []}}
        (folder / "hosts.json").write_text(json.dumps({"all": {"children": groups, "vars": known}}))

    def says(self, program, text="", code=0):
        """Set the output of a Slurm program."""
        path = self.folder / program
        path.write_text(f"#!/bin/sh\nprintf '%s' '{text}'\nexit {code}\n")
        path.chmod(0o755)

    def reaches(self, name):
        """Write a playbook whose plays reach the same hosts and do nothing else."""
        plays = yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text())
        here = [
            play | {"tasks": [{"ansible.builtin.ping": None}], "roles": []}
            for play in plays
            if "hosts" in play
        ]
        (self.folder / f"{name}.yml").write_text(yaml.safe_dump(here))

    def run(self, plays, *words):
        """Run plays, which repeat their queries once, and return Ansible's output."""
        book = self.folder / "book.yml"
        book.write_text(re.sub(r"(retries|delay): \d+", r"\1: 1", yaml.safe_dump(plays)))
        environment = os.environ | {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
        }
        command = ["ansible-playbook", f"--inventory={self.folder / 'hosts.json'}", book, *words]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, " ".join(done.stdout.split())


def upgrade():
    """Return the plays of the upgrade by name."""
    return {play["name"]: play for play in playbook_plays("upgrade")}


def batch():
    """Return a play that ends a batch of two hosts."""
    play = upgrade()["Upgrade the compute hosts"]
    tasks = yaml.safe_load((PLAYBOOKS / "tasks/check_batch.yml").read_text())
    before = {"compute1": "idle", "compute2": "mixed"}
    known = play["vars"] | {"__upgrade_before": before}
    failing = {
        "ansible.builtin.command": "false",
        "when": "inventory_hostname == failing | default('')",
    }
    return {
        "hosts": "slurm_compute",
        "gather_facts": False,
        "vars": known,
        "tasks": [failing, *tasks],
    }


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


@pytest.mark.parametrize(
    ("program", "text", "code"), [("sinfo", "", 1), ("sdiag", HEARD.replace("0", "7"), 0)]
)
def test_an_upgrade_with_a_silent_daemon_is_refused_with_all_reasons(cluster, program, text, code):
    cluster.says(program, text, code)
    plays = upgrade()

    code, output = cluster.run(
        [plays["Check the state of the cluster"], plays["Choose the hosts to upgrade"]]
    )

    assert code == 2
    assert "nothing was changed: ash does not answer" in output
    assert REFUSED in output


def test_an_unresponsive_node_ends_the_upgrade(cluster):
    cluster.says("sinfo", WELL.replace("mixed", "down*"))

    code, output = cluster.run([batch()])

    assert code == 2
    assert (
        "Since the start of the upgrade compute2 stopped answering. Later hosts were not changed."
        in output
    )


def test_an_unresponsive_slurmctld_ends_the_upgrade(cluster):
    cluster.says("sinfo", code=1)

    code, output = cluster.run([batch()])

    assert code == 2
    assert "Since the start of the upgrade slurmctld does not answer" in output


def test_a_failed_host_ends_the_upgrade(cluster):
    code, output = cluster.run([batch() | {"vars": batch()["vars"] | {"failing": "birch"}}])

    assert code == 2
    assert "birch failed. Later hosts were not changed." in output


@pytest.fixture
def releases(cluster):
    """The folder of this checkout's release, and another folder. The backup is fake."""
    (cluster.folder / "new.whl").write_text("wheel")
    (cluster.folder / "more.whl").write_text("more")
    (cluster.folder / "lock.txt").write_text("lock")
    output = {"ansible.builtin.debug": {"msg": "the site is backed up"}}
    backup = [{"hosts": "localhost", "gather_facts": False, "tasks": [output]}]
    (cluster.folder / "backup.yml").write_text(json.dumps(backup))
    digest = hashlib.sha256(b"lockwheelmore").hexdigest()
    return {"own": f"release-{digest[:12]}", "another": "release-0123456789ab"}


@pytest.mark.parametrize(
    ("used", "newer", "words", "is_backed_up"),
    [
        ("own", [], (), False),
        ("another", [], (), True),
        ("another", [], ("--check",), False),
        ("own", ["birch"], (), True),
    ],
)
def test_an_upgrade_to_a_newer_version_creates_an_archive_first(
    cluster, releases, used, newer, words, is_backed_up
):
    root = cluster.folder
    (root / "venv").symlink_to(root / releases[used])
    given = {"__control_plane_root": str(root), "__control_plane_venv": str(root / "venv")}
    given |= {
        "control_plane_wheel": str(root / "new.whl"),
        "control_plane_extra_wheels": [str(root / "more.whl")],
        "control_plane_requirements": str(root / "lock.txt"),
    }
    turn = {
        "ansible.builtin.add_host": {"name": "{{ item }}", "groups": ["upgrade"]},
        "changed_when": False,
    }
    turns = {"hosts": "localhost", "gather_facts": False, "tasks": [turn | {"loop": newer}]}
    plays = upgrade()

    looks = [turns, plays["Compare the release of the control plane"], plays["Back up the site"]]
    code, output = cluster.run(looks, f"--extra-vars={json.dumps(given)}", *words)

    assert code == 0, output
    assert ("the site is backed up" in output) is is_backed_up
    assert ("The control plane of ash has another release than this checkout" in output) is (
        used != "own"
    )
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}


@pytest.mark.parametrize(
    ("words", "code", "reached"),
    [((), 4, {"ash", "birch"}), (("--extra-vars=without=cedar,birch",), 0, {"ash"})],
)
def test_excluded_hosts_are_reached_by_no_later_play(tmp_path, words, code, reached):
    cluster = Cluster(tmp_path, slurm_compute="cedar", slurm_login="cedar")
    for name in ("control", "verify"):
        cluster.reaches(name)

    exit_code, output = cluster.run(
        [upgrade()["Run the control plane"], upgrade()["Verify the site"]], *words
    )

    assert exit_code == code, output
    assert ("cedar" in output) == bool(code)
    assert set(re.findall(r"ok: \[(\w+)\]", output)) == reached
