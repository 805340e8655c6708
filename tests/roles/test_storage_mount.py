# SPDX-License-Identifier: Apache-2.0
"""The conditions to remount the shared storage while jobs run, and to accept a mount."""

import json
import os

import pytest
from tests.roles.catalogue import ROOT as CHECKOUT
from tests.roles.catalogue import Role
from tests.roles.modules import run_module

ROLE = Role("shared_storage")
# Mount points that every machine has. The tests replace program stat by a fake, so the file systems
# at these mount points do not matter.
ROOT = "/"
HOME = "/proc"
OLD = "/sys"
NOT_MOUNTED = "/no/such/folder"
JOB_PROCESS = "77 slurmstepd: [12.batch]"
# Scripts of the fake stat.
SUCCEEDS = "exit 0"
STALE = "echo \"stat: cannot statx '/x': Stale file handle\" >&2; exit 1"
DISCONNECTED = "echo \"stat: cannot statx '/x': Transport endpoint is not connected\" >&2; exit 1"
DENIED = "echo \"stat: cannot statx '/x': Permission denied\" >&2; exit 1"


def mount_description(root, *folders):
    """Return the description of a mount, as the role writes it."""
    mounts = [{"path": folder} for folder in folders]
    return json.dumps([f"mount -t nfs4 a:/ {root}", mounts, False, []])


@pytest.fixture
def check_mount(tmp_path, monkeypatch):
    """Return a function that runs the module with fake programs.

    With ``must="allow_remount"`` the module fails if a remount could close files of jobs. With
    ``must="answer"`` the module fails if the mount does not work. ``stat`` has the script of the
    fake stat for each path. ``job`` is the output of the fake pgrep, or None without jobs.
    ``mounted`` is the recorded description of the present mount, or None without a record.
    """

    def run(must, *, stat, paths=(ROOT, HOME), mounted=None, job=JOB_PROCESS, **options):
        cases = " ".join(f"{path}) {script};;" for path, script in stat.items())
        programs = {
            "stat": f"case $3 in {cases} esac",
            "pgrep": f"echo '{job}'" if job else "exit 1",
        }
        for name, script in programs.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        (tmp_path / "parameters_file").write_text(mount_description(*paths))
        if mounted is not None:
            (tmp_path / "in_force").write_text(mounted)
        arguments = {
            "paths": list(paths),
            "parameters_file": str(tmp_path / "parameters_file"),
            "in_force": str(tmp_path / "in_force"),
            "must": must,
            "wait_s": 0,
        }
        module = CHECKOUT / "plugins/modules/shared_storage_mount.py"
        return run_module(module, arguments | options, tmp=tmp_path / "tmp")

    return run


@pytest.mark.parametrize(
    "stat", [{}, {ROOT: DISCONNECTED}, {HOME: STALE}, {ROOT: DISCONNECTED, HOME: DENIED}]
)
def test_a_working_mount_is_retained_while_a_job_runs(check_mount, stat):
    result = check_mount("allow_remount", stat={ROOT: SUCCEEDS, HOME: SUCCEEDS} | stat)

    assert result["failed"]
    assert "lose their open files: [12.batch]. Run playbooks/drain.yml" in result["msg"]


def test_without_jobs_the_mount_is_not_probed(check_mount, tmp_path):
    """mfsmount does not end at SIGTERM while a probe waits for an answer."""
    result = check_mount("allow_remount", stat={ROOT: f"touch {tmp_path}/probed"}, job=None)

    assert "failed" not in result
    assert not (tmp_path / "probed").exists()


@pytest.mark.parametrize("script", [STALE, DISCONNECTED])
def test_a_dead_mount_is_mounted_again_while_jobs_run(check_mount, script):
    result = check_mount(
        "allow_remount", stat={ROOT: script, HOME: script}, mounted=mount_description(ROOT, HOME)
    )

    assert "failed" not in result
    assert set(result["troubles"]) == {ROOT, HOME}


def test_a_missing_mount_is_mounted_while_jobs_run(check_mount):
    assert "failed" not in check_mount("allow_remount", stat={}, paths=[NOT_MOUNTED])


def test_mounts_to_remove_are_retained_while_a_job_runs(check_mount):
    result = check_mount(
        "allow_remount", stat={OLD: SUCCEEDS}, paths=[NOT_MOUNTED], mounted=mount_description(OLD)
    )

    assert result["failed"]


def test_a_mount_without_an_answer_is_retained_while_a_job_runs(check_mount):
    """The mount works again if its server answers later, so jobs should keep their open files."""
    result = check_mount("allow_remount", stat={ROOT: "exec sleep 30"}, paths=[ROOT], answer_s=0)

    assert result["failed"]
    assert result["troubles"] == {ROOT: "no answer within 0 s"}


def test_a_correct_mount_is_accepted(check_mount):
    assert "failed" not in check_mount("answer", stat={}, mounted=mount_description(ROOT, HOME))


@pytest.mark.parametrize(
    ("stat", "paths", "message"),
    [
        ({}, [ROOT, NOT_MOUNTED], f"({NOT_MOUNTED}: not mounted)"),
        ({HOME: STALE}, [ROOT, HOME], f"({HOME}: Stale file handle)"),
        ({ROOT: DISCONNECTED}, [ROOT, HOME], f"({ROOT}: Transport endpoint is not connected)"),
    ],
)
def test_a_missing_or_dead_mount_ends_the_run(check_mount, stat, paths, message):
    result = check_mount("answer", stat=stat, paths=paths, mounted=mount_description(*paths))

    assert result["failed"]
    assert message in result["msg"]
    assert "The operator of its server must" in result["msg"]


@pytest.mark.parametrize("mounted", [None, mount_description(OLD, HOME)])
def test_an_outdated_mount_is_refused_without_a_probe(check_mount, mounted, tmp_path):
    result = check_mount("answer", stat={ROOT: f"touch {tmp_path}/probed"}, mounted=mounted)

    assert (
        f"({ROOT}: not mounted with the new parameters,"
        f" {HOME}: not mounted with the new parameters)" in result["msg"]
    )
    assert not (tmp_path / "probed").exists()
