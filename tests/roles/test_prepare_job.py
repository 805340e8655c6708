# SPDX-License-Identifier: Apache-2.0
"""Tests of the prolog gridstead-prepare-job, which creates the customer's directory on a node."""

import os
import subprocess

import pytest
from tests.roles.catalogue import Role

ROLE = Role("slurm")
TEMPLATE = ROLE.path / "templates/etc/slurm/gridstead-prepare-job.j2"
UID, OTHER_UID, GID = 200001, 200002, 100000

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as a prolog has")


@pytest.fixture
def folder(tmp_path):
    """Return the directory of customers' directories, to which all users can write."""
    folder = tmp_path / "disk"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def run_prolog(site, folder, tmp_path):
    """Return a function that runs the prolog for a job of a user. It checks the exit code."""
    host = site.hosts_of(ROLE)[0]
    text = site.render(ROLE, TEMPLATE, host, slurm_disk_directories=str(folder))
    program = tmp_path / "prolog"
    program.write_text(text)

    def run(uid=UID):
        environment = {"PATH": os.environ["PATH"], "SLURM_JOB_UID": str(uid)}
        subprocess.run(["sh", str(program)], env=environment, check=True, timeout=30)

    return run


def access(path):
    status = path.lstat()
    return status.st_uid, status.st_gid, oct(status.st_mode)


def test_the_directory_of_a_customer_is_created_and_private(run_prolog, folder):
    run_prolog()

    assert access(folder / f"user-{UID}") == (UID, GID, "0o40700")


def test_the_files_of_earlier_jobs_remain(run_prolog, folder):
    run_prolog()
    (folder / f"user-{UID}" / "cache").write_text("kept")

    run_prolog()

    assert (folder / f"user-{UID}" / "cache").read_text() == "kept"


@pytest.mark.parametrize("kind", ["directory", "file", "link"])
def test_a_path_of_another_user_is_replaced_and_what_it_names_is_not_changed(
    run_prolog, folder, tmp_path, kind
):
    place = folder / f"user-{UID}"
    secret = tmp_path / "secret"
    secret.mkdir()
    before = access(secret)
    if kind == "directory":
        place.mkdir(mode=0o777)
    elif kind == "file":
        place.touch()
    else:
        place.symlink_to(secret)
    os.chown(place, OTHER_UID, GID, follow_symlinks=False)

    run_prolog()

    assert access(place) == (UID, GID, "0o40700")
    assert access(secret) == before


@pytest.mark.parametrize("uid", [0, 1000, 200000, 1000000])
def test_only_customers_have_a_directory(run_prolog, folder, uid):
    run_prolog(uid)

    assert list(folder.iterdir()) == []


def test_a_node_without_the_disk_still_runs_jobs(run_prolog, folder):
    folder.rmdir()

    run_prolog()

    assert not folder.exists()
