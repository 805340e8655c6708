# SPDX-License-Identifier: Apache-2.0
"""Tests of the prolog gridstead-prepare-job, which creates the customer's directory on a node."""

import contextlib
import os
import select
import signal
import subprocess

import pytest
from tests.roles.catalogue import Role

ROLE = Role("slurm")
TEMPLATE = ROLE.path / "templates/etc/slurm/gridstead-prepare-job.j2"
UID, OTHER_UID, GID = 200001, 200002, 100000

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as a prolog has")


@pytest.fixture
def folder(tmp_path):
    """Return the directory of customers' directories."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


@pytest.fixture
def run_prolog(site, folder, tmp_path):
    """Return a function that runs the prolog for a job of a user. It checks the exit code.

    Then it ends the process group of the prolog, as Slurm does.
    """
    host = site.hosts_of(ROLE)[0]
    text = site.render(ROLE, TEMPLATE, host, slurm_disk_directories=str(folder))
    program = tmp_path / "prolog"
    program.write_text(text)

    def run(uid=UID):
        environment = {"PATH": os.environ["PATH"], "SLURM_JOB_UID": str(uid)}
        process = subprocess.Popen(["sh", program], env=environment, start_new_session=True)
        assert process.wait(30) == 0
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

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
def test_a_path_of_another_user_is_replaced_and_the_target_of_a_link_is_not_changed(
    run_prolog, folder, tmp_path, kind
):
    customer_directory = folder / f"user-{UID}"
    secret = tmp_path / "secret"
    secret.mkdir()
    before = access(secret)
    if kind == "directory":
        customer_directory.mkdir(mode=0o777)
    elif kind == "file":
        customer_directory.touch()
    else:
        customer_directory.symlink_to(secret)
    os.chown(customer_directory, OTHER_UID, GID, follow_symlinks=False)

    run_prolog()

    assert access(customer_directory) == (UID, GID, "0o40700")
    assert access(secret) == before


def test_two_prologs_of_a_customer_at_once_keep_the_first_directory(
    run_prolog, folder, tmp_path, monkeypatch
):
    """The fake chown acts as the other prolog, which must find no directory to remove."""
    customer_directory = folder / f"user-{UID}"
    program = tmp_path / "chown-bin/chown"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nPATH=${{PATH#*:}}; mkdir {customer_directory} &&\n"
        f"touch {customer_directory}/kept\n"
        f'chown {UID}:{GID} {customer_directory}; chown "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    run_prolog()

    assert (customer_directory / "kept").exists()
    assert [path.name for path in folder.iterdir()] == [customer_directory.name]


def test_a_removal_continues_when_slurm_ends_the_processes_of_the_prolog(
    run_prolog, folder, tmp_path, monkeypatch
):
    """The stand-in of setsid is slow, so a prolog that does not wait for setsid ends first."""
    ended = tmp_path / "ended"
    os.mkfifo(ended)
    stand_ins = {
        "setsid": 'sleep 0.5; PATH=${PATH#*:}; exec setsid "$@"',
        "rm": f'PATH=${{PATH#*:}}; rm "$@"; echo . >{ended}',
    }
    for name, text in stand_ins.items():
        program = tmp_path / f"{name}-bin" / name
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/setsid-bin:{tmp_path}/rm-bin:{os.environ['PATH']}")
    (folder / f"user-{UID}").mkdir()
    os.chown(folder / f"user-{UID}", OTHER_UID, GID)
    pipe = os.open(ended, os.O_RDWR)

    run_prolog()

    readable, _, _ = select.select([pipe], [], [], 10)
    os.close(pipe)
    assert readable
    assert [path.name for path in folder.iterdir()] == [f"user-{UID}"]


@pytest.mark.parametrize("uid", [0, 1000, 200000, 1000000])
def test_only_customers_have_a_directory(run_prolog, folder, uid):
    run_prolog(uid)

    assert list(folder.iterdir()) == []


def test_a_node_without_the_disk_still_runs_jobs(run_prolog, folder):
    folder.rmdir()

    run_prolog()

    assert not folder.exists()
