# SPDX-License-Identifier: Apache-2.0
"""The conditions to remount the shared storage while jobs run, and to accept a mount."""

import json
import os

import pytest
from tests.roles.catalogue import ROOT as CHECKOUT
from tests.roles.catalogue import Role
from tests.roles.modules import run_module

ROLE = Role("shared_storage")
# Mounts of any machine; what they answer is the stand-in's word.
ROOT, HOME, OLD = "/", "/proc", "/sys"
NOT_MOUNTED = "/no/such/place"
JOB = "77 slurmstepd: [12.batch]"
ANSWERS = "exit 0"
STALE = "echo \"stat: cannot statx '/x': Stale file handle\" >&2; exit 1"
GONE = "echo \"stat: cannot statx '/x': Transport endpoint is not connected\" >&2; exit 1"
DENIED = "echo \"stat: cannot statx '/x': Permission denied\" >&2; exit 1"


def text(root, *places):
    return json.dumps([f"mount -t nfs4 a:/ {root}", [{"path": path} for path in places], False, []])


@pytest.fixture
def look(tmp_path, monkeypatch):
    """A function that calls the module with these jobs and these answers of the mounts."""

    def call_it(must, *, says, paths=(ROOT, HOME), started_with=None, job=JOB, **more):
        stands_in = {
            "stat": "case $3 in "
            + " ".join(f"{path}) {word};;" for path, word in says.items())
            + " esac",
            "pgrep": f"echo '{job}'" if job else "exit 1",
        }
        for name, script in stands_in.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        (tmp_path / "made_of").write_text(text(*paths))
        if started_with is not None:
            (tmp_path / "in_force").write_text(started_with)
        arguments = {
            "paths": list(paths),
            "made_of": str(tmp_path / "made_of"),
            "must": must,
            "wait_s": 0,
        }
        module = CHECKOUT / "plugins/modules/shared_storage_mount.py"
        return run_module(
            module,
            arguments | {"in_force": str(tmp_path / "in_force")} | more,
            tmp=tmp_path / "tmp",
        )

    return call_it


@pytest.mark.parametrize("says", [{}, {ROOT: GONE}, {HOME: STALE}, {ROOT: GONE, HOME: DENIED}])
def test_a_working_mount_is_retained_while_a_job_runs(look, says):
    result = look("spare", says={ROOT: ANSWERS, HOME: ANSWERS} | says)

    assert result["failed"]
    assert "lose their open files: [12.batch]. Wait" in result["msg"]


def test_without_jobs_the_mount_is_not_probed(look, tmp_path):
    """mfsmount ignores SIGTERM while a program waits for an answer."""
    result = look("spare", says={ROOT: f"touch {tmp_path}/asked"}, job=None)

    assert "failed" not in result
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("word", [STALE, GONE])
def test_a_dead_mount_is_mounted_again_while_jobs_run(look, word):
    result = look("spare", says={ROOT: word, HOME: word}, started_with=text(ROOT, HOME))

    assert "failed" not in result
    assert set(result["troubles"]) == {ROOT, HOME}


def test_a_missing_mount_is_mounted_while_jobs_run(look):
    assert "failed" not in look("spare", says={}, paths=[NOT_MOUNTED])


def test_mounts_to_remove_are_retained_while_a_job_runs(look):
    result = look("spare", says={OLD: ANSWERS}, paths=[NOT_MOUNTED], started_with=text(OLD))

    assert result["failed"]


def test_a_silent_server_may_answer_later(look):
    result = look("spare", says={ROOT: "exec sleep 30"}, paths=[ROOT], answer_s=0)

    assert result["failed"]
    assert result["troubles"] == {ROOT: "no answer within 0 s"}


def test_a_correct_mount_is_accepted(look):
    assert "failed" not in look("answer", says={}, started_with=text(ROOT, HOME))


@pytest.mark.parametrize(
    ("says", "paths", "why"),
    [
        ({}, [ROOT, NOT_MOUNTED], f"({NOT_MOUNTED}: not mounted)"),
        ({HOME: STALE}, [ROOT, HOME], f"({HOME}: Stale file handle)"),
        ({ROOT: GONE}, [ROOT, HOME], f"({ROOT}: Transport endpoint is not connected)"),
    ],
)
def test_a_missing_mount_ends_the_run(look, says, paths, why):
    result = look("answer", says=says, paths=paths, started_with=text(*paths))

    assert result["failed"]
    assert why in result["msg"]
    assert "The operator of its server must" in result["msg"]


@pytest.mark.parametrize("started_with", [None, text(OLD, HOME)])
def test_an_outdated_mount_is_refused_without_a_probe(look, started_with, tmp_path):
    result = look("answer", says={ROOT: f"touch {tmp_path}/asked"}, started_with=started_with)

    assert (
        f"({ROOT}: not mounted with the new parameters, {HOME}: not mounted with the new parameters)"
        in result["msg"]
    )
    assert not (tmp_path / "asked").exists()
