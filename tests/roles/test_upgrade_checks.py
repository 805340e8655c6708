# SPDX-License-Identifier: Apache-2.0
"""playbooks/upgrade.yml with fake Slurm programs: its checks of the cluster, and its backup."""

import hashlib
import json
import os
import re
import subprocess

import pytest
import yaml
from tests.roles.catalogue import ROOT, playbook_plays
from tests.roles.content import tasks_with
from tests.yaml_files import read_yaml

pytestmark = pytest.mark.slow

PLAYBOOKS = ROOT / "playbooks"
READY_NODES = "compute1|idle|\ncompute2|mixed|\n"
EMPTY_AGENT_QUEUE = "DBD Agent queue size: 0\n"
UNSENT_RECORDS = "slurmctld has records that it has not sent to slurmdbd yet"


class Cluster:
    """A cluster whose hosts are names of this machine, with fake Slurm programs.

    ``unreachable`` names an additional host that does not answer, by group.
    """

    def __init__(self, folder, **unreachable):
        self.folder = folder
        self.set_output("sinfo", READY_NODES)
        self.set_output("sdiag", EMPTY_AGENT_QUEUE)
        local = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        }
        groups = {
            "slurm_controller": {"hosts": {"ash": local}},
            "slurm_accounting": {"hosts": {"ash": local}},
            "slurm_login": {"hosts": {"ash": local}},
            "slurm_compute": {"hosts": {"ash": None, "birch": local}},
        }
        for name, host in unreachable.items():
            groups[name]["hosts"][host] = {"ansible_host": "127.0.0.1", "ansible_port": 1}
        groups |= {"slurm": {"children": dict.fromkeys(groups)}}
        variables = {"base_groups": {"slurm_backup_controller": []}}
        inventory = {"all": {"children": groups, "vars": variables}}
        (folder / "hosts.json").write_text(json.dumps(inventory))

    def set_output(self, program, text="", code=0):
        """Set the output and the exit code of a Slurm program."""
        path = self.folder / program
        path.write_text(f"#!/bin/sh\nprintf '%s' '{text}'\nexit {code}\n")
        path.chmod(0o755)

    def replace_tasks_by_ping(self, name):
        """Write a copy of a playbook whose plays only ping their hosts."""
        plays = tasks_with("hosts", playbook_plays(name))
        for play in plays:
            play |= {"tasks": [{"ansible.builtin.ping": None}], "roles": []}
        (self.folder / f"{name}.yml").write_text(yaml.safe_dump(plays))

    def run(self, plays, *words):
        """Run plays with at most one retry and return exit code and output."""
        playbook = self.folder / "playbook.yml"
        playbook.write_text(re.sub(r"(retries|delay): \d+", r"\1: 1", yaml.safe_dump(plays)))
        environment = os.environ | {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
        }
        command = [
            "ansible-playbook",
            f"--inventory={self.folder / 'hosts.json'}",
            playbook,
            *words,
        ]
        result = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        return result.returncode, " ".join(result.stdout.split())


def upgrade_plays():
    """Return the plays of upgrade.yml by name."""
    return {play["name"]: play for play in playbook_plays("upgrade")}


def batch_play(**variables):
    """Return a play with the checks that upgrade.yml runs after each batch of compute hosts.

    Variable ``failing`` names a host that fails before the checks.
    """
    play = upgrade_plays()["Upgrade Slurm on the compute hosts"]
    tasks = read_yaml(PLAYBOOKS / "tasks/check_batch.yml")
    states = {"compute1": "idle", "compute2": "mixed"}
    failing_task = {
        "ansible.builtin.command": "false",
        "when": "inventory_hostname == failing | default('')",
    }
    return {
        "hosts": "slurm_compute",
        "gather_facts": False,
        "vars": play["vars"] | {"__upgrade_former_states": states} | variables,
        "tasks": [failing_task, *tasks],
    }


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


@pytest.mark.parametrize(
    ("program", "text", "code"),
    [("sinfo", "", 1), ("sdiag", EMPTY_AGENT_QUEUE.replace("0", "7"), 0)],
)
def test_an_upgrade_of_an_unready_cluster_is_refused_with_all_reasons(cluster, program, text, code):
    cluster.set_output(program, text, code)
    plays = upgrade_plays()

    exit_code, output = cluster.run(
        [
            plays["Check whether the cluster can be upgraded"],
            plays["Choose the hosts on which Slurm is upgraded"],
        ]
    )

    assert exit_code == 2
    assert "nothing was changed: ash does not answer" in output
    assert UNSENT_RECORDS in output


def test_an_unresponsive_node_ends_the_upgrade(cluster):
    cluster.set_output("sinfo", READY_NODES.replace("mixed", "down*"))

    code, output = cluster.run([batch_play()])

    assert code == 2
    assert (
        "Since the start of the upgrade compute2 stopped answering. Later hosts were not changed."
        in output
    )


def test_an_unresponsive_slurmctld_ends_the_upgrade(cluster):
    cluster.set_output("sinfo", code=1)

    code, output = cluster.run([batch_play()])

    assert code == 2
    assert "Since the start of the upgrade slurmctld does not answer" in output


def test_a_failed_host_ends_the_upgrade(cluster):
    code, output = cluster.run([batch_play(failing="birch")])

    assert code == 2
    assert "birch failed. Later hosts were not changed." in output


@pytest.fixture
def releases(cluster):
    """Return the names of this checkout's release and of another release.

    The fixture replaces the playbook of the backup by one that prints a message.
    """
    (cluster.folder / "new.whl").write_text("wheel")
    (cluster.folder / "more.whl").write_text("more")
    (cluster.folder / "lock.txt").write_text("lock")
    debug_task = {"ansible.builtin.debug": {"msg": "the site is backed up"}}
    backup = [{"hosts": "localhost", "gather_facts": False, "tasks": [debug_task]}]
    (cluster.folder / "backup.yml").write_text(json.dumps(backup))
    digest = hashlib.sha256(b"lockwheelmore").hexdigest()
    return {"own": f"release-{digest[:12]}", "another": "release-0123456789ab"}


@pytest.mark.parametrize(
    ("installed", "hosts_with_newer_slurm", "words", "is_backed_up"),
    [
        ("own", [], (), False),
        ("another", [], (), True),
        ("another", [], ("--check",), False),
        ("own", ["birch"], (), True),
    ],
)
def test_an_upgrade_to_a_newer_version_backs_up_the_site_first(
    cluster, releases, installed, hosts_with_newer_slurm, words, is_backed_up
):
    root = cluster.folder
    (root / "venv").symlink_to(root / releases[installed])
    variables = {
        "__control_plane_root": str(root),
        "__control_plane_venv": str(root / "venv"),
        "control_plane_wheel": str(root / "new.whl"),
        "control_plane_extra_wheels": [str(root / "more.whl")],
        "control_plane_requirements": str(root / "lock.txt"),
    }
    add_to_group = {
        "ansible.builtin.add_host": {"name": "{{ item }}", "groups": ["upgrade"]},
        "changed_when": False,
        "loop": hosts_with_newer_slurm,
    }
    plays = [
        {"hosts": "localhost", "gather_facts": False, "tasks": [add_to_group]},
        upgrade_plays()["Compare the control plane's release with the checkout"],
        upgrade_plays()["Back up the site"],
    ]

    code, output = cluster.run(plays, f"--extra-vars={json.dumps(variables)}", *words)

    assert code == 0, output
    assert ("the site is backed up" in output) is is_backed_up
    is_reported = "The control plane of ash has another release than this checkout" in output
    assert is_reported is (installed == "another")
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}


@pytest.mark.parametrize(
    ("words", "code", "reached_hosts"),
    [((), 4, {"ash", "birch"}), (("--extra-vars=without=cedar,birch",), 0, {"ash"})],
)
def test_no_later_play_connects_to_an_excluded_host(tmp_path, words, code, reached_hosts):
    """Host cedar is unreachable. Ansible exits with 4 if a play tries to connect to it."""
    cluster = Cluster(tmp_path, slurm_compute="cedar", slurm_login="cedar")
    for name in ("control", "verify"):
        cluster.replace_tasks_by_ping(name)

    plays = upgrade_plays()

    exit_code, output = cluster.run(
        [plays["Run the control plane"], plays["Verify the site"]], *words
    )

    assert exit_code == code, output
    assert ("cedar" in output) == bool(code)
    assert set(re.findall(r"ok: \[(\w+)\]", output)) == reached_hosts
