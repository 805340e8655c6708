# SPDX-License-Identifier: Apache-2.0
"""Tests of a signed CVMFS repository, its replica and mount, and jobs that use its image.

The publisher runs on this machine. The replica is on infra and the mount on a compute node. A
fixture removes all objects that role cvmfs installed.
"""

import json
import re
import subprocess
import time

import pytest
from cvmfs.tests.publisher import DAY_S, Publisher
from cvmfs.tests.stratum0 import Stratum0
from cvmfs.tests.trees import Mode, Symlink
from tests.e2e.conftest import CHECKOUT, wait_until
from tests.e2e.slurm_jobs import SlurmJobs, operator_access
from tests.e2e.test_container_runs import CREATE_IMAGE, run

pytestmark = pytest.mark.slurm

NAME = "images.example.org"
REPLICA, NODE = "infra", "compute1"
HOSTS = (REPLICA, NODE)
IMAGE = {"image": "tests/signed:1", "deepsquareHosted": True}
IMAGE_PATH = ("registry-1.docker.io", "tests", "signed:1")
PRINT_GREETING = {"run": {"command": "read -r it </etc/hosted; echo $it", "container": IMAGE}}
REMOVE_CVMFS = r"""
systemctl list-units --all --plain --no-legend 'gridstead-cvmfs*' | while read -r unit _; do
    systemctl disable --quiet --now "$unit"
done
rm -rf /etc/gridstead/cvmfs* /etc/systemd/system/gridstead-cvmfs*
rm -rf /srv/cvmfs /var/cache/gridstead-cvmfs /opt/software
systemctl daemon-reload
if [ -d /cvmfs ]; then rmdir /cvmfs/* /cvmfs; fi
while pkill -0 -u gridstead-cvmfs; do sleep 0.1; done
userdel gridstead-cvmfs
"""


def folder_tree(folder):
    """Return a folder as the tree that a publisher accepts."""
    return {path.name: tree_node(path) for path in folder.iterdir()}


def tree_node(path):
    if path.is_symlink():
        return Symlink(str(path.readlink()))
    if path.is_dir():
        return Mode(folder_tree(path), path.stat().st_mode & 0o7777)
    return Mode(path.read_bytes(), path.stat().st_mode & 0o7777)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Return the folder of a small unpacked image."""
    folder = tmp_path_factory.mktemp("image") / "signed"
    subprocess.run(["bash", "-euc", CREATE_IMAGE, "bash", folder], check=True)
    return folder


class Software:
    """A publisher of a repository with the image. Applies the role that mounts the repository."""

    def __init__(self, lab, folder, image):
        self.image = image
        self.publisher = Publisher(folder / "stratum0", name=NAME)
        self.key = self.publisher.public_key(folder / "key").read_text()
        self.stratum0 = Stratum0(self.publisher.root, NAME, lab.gateway)
        self.publish("signed")

    def publish(self, greeting):
        """Publish a revision in which the file etc/hosted of the image contains this greeting."""
        self.greeting = f"{greeting}\n"
        (self.image / "etc/hosted").write_text(self.greeting)
        registry, owner, name = IMAGE_PATH
        self.publisher.publish({registry: {owner: {name: tree_node(self.image)}}})
        self.publisher.write_whitelist(issued=int(time.time()) - DAY_S)

    def apply_role(self, *options):
        """Run the role and return the number of changed tasks of each host."""
        repository = {"name": NAME, "url": self.stratum0.url, "public_keys": [self.key]}
        variables = {
            "cvmfs_repositories": [repository],
            "cvmfs_links": {"/opt/software": f"/cvmfs/{NAME}"},
            "cvmfs_snapshot_every_s": 1,
            "cvmfs_look_every_s": 1,
        }
        argv = [
            "ansible-playbook",
            "playbooks/software.yml",
            "--limit",
            ",".join(HOSTS),
            "-e",
            json.dumps(variables),
        ]
        result = subprocess.run(
            [*argv, *options], cwd=CHECKOUT, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout[-3000:]
        recap = re.findall(r"^(\S+) +: .*changed=(\d+)", result.stdout, re.MULTILINE)
        return {host: int(count) for host, count in recap}


@pytest.fixture(scope="module")
def software(lab, image, tmp_path_factory):
    repository = Software(lab, tmp_path_factory.mktemp("software"), image)
    yield repository
    repository.stratum0.close()
    for host in HOSTS:
        lab.sh(host, REMOVE_CVMFS)


@pytest.fixture(scope="module")
def installed(lab, software):
    """Run the role on hosts without CVMFS, first in check mode and then normally.

    Returns the number of changed tasks of each host in both runs.
    """
    counts = [software.apply_role("--check"), software.apply_role()]
    wait_until(
        lambda: lab.run(NODE, "findmnt", f"/cvmfs/{NAME}", check=False).returncode == 0, timeout=60
    )
    return counts


@pytest.fixture(scope="module")
def jobs(lab, tmp_path_factory):
    jobs = SlurmJobs(lab, operator_access(lab, tmp_path_factory.mktemp("ssh")), f"0x{'c5' * 20}")
    yield jobs
    jobs.close()


def test_check_mode_predicts_the_changes_and_the_role_is_idempotent(software, installed):
    predicted, changed = installed

    assert set(predicted) == set(HOSTS)
    assert set(changed) == set(HOSTS)
    assert all(predicted.values())
    assert software.apply_role() == dict.fromkeys(HOSTS, 0)


def test_the_cvmfs_client_has_no_capabilities(lab, installed):
    file_system = lab.run(NODE, "findmnt", "-no", "FSTYPE", f"/cvmfs/{NAME}").stdout
    assert file_system == "fuse.gridstead-cvmfs\n"
    capability_lines = lab.sh(
        NODE, "pgrep -u gridstead-cvmfs -f 'cvmfs mount' | xargs -I{} grep CapEff /proc/{}/status"
    )
    assert capability_lines.split() == ["CapEff:", "0" * 16]


def test_a_job_runs_from_a_signed_image_and_from_its_next_revision(lab, software, installed, jobs):
    assert jobs.wait(jobs.submit(PRINT_GREETING)) == (0, software.greeting)

    path = "/".join((f"/cvmfs/{NAME}", *IMAGE_PATH, "etc/hosted"))
    software.publish("signed again")
    wait_until(lambda: lab.run(NODE, "cat", path).stdout == "signed again\n", timeout=30)
    reader = jobs.submit(PRINT_GREETING)
    writer = jobs.submit(run(f"echo mine 2>&- >{path} || echo read-only"))

    assert jobs.wait(reader) == (0, "signed again\n")
    assert jobs.wait(writer) == (0, "read-only\n")


def test_a_node_runs_cached_software_while_the_replica_is_down(
    lab, software, installed, jobs, stop_unit
):
    assert jobs.wait(jobs.submit(PRINT_GREETING)) == (0, software.greeting)

    with stop_unit(REPLICA, "gridstead-cvmfs"):
        lab.run(NODE, "systemctl", "restart", f"gridstead-cvmfs-mount@{NAME}")

        assert jobs.wait(jobs.submit(PRINT_GREETING)) == (0, software.greeting)
