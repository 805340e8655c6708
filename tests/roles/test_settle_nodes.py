# SPDX-License-Identifier: Apache-2.0
"""What runs after slurmctld's start, before partitions start jobs: what must not be started, and what was lost."""

import subprocess

import pytest
from tests.roles.catalogue import Role

PROGRAM = Role("slurm").path / "files/usr/local/sbin/gridstead-settle-nodes"
COMMANDS = {
    "scontrol": 'echo "scontrol $*" >>"$TOLD"; [[ $* != *"show partition" ]] || echo "PartitionName=main x State=UP y"',
    "scancel": 'echo "scancel $*" >>"$TOLD"',
    "squeue": 'if [[ $* == *PENDING* ]]; then printf "%s\\n" $WAITING; else printf "%s\\n" $BUSY; fi',
    "sinfo": "echo idle",
    "sleep": 'echo "sleep $*" >>"$TOLD"',
}


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Returns a function: jobs that wait and busy nodes in, what slurmctld was told out."""
    state, told, commands = tmp_path / "state", tmp_path / "told", tmp_path / "bin"
    commands.mkdir()
    state.mkdir()
    for name, script in COMMANDS.items():
        (commands / name).write_text(f"#!/bin/bash\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    monkeypatch.setenv("TOLD", str(told))

    def run(*, waiting=(), busy=()):
        told.write_text("")
        monkeypatch.setenv("WAITING", " ".join(waiting))
        monkeypatch.setenv("BUSY", " ".join(busy))
        subprocess.run([PROGRAM, "started", state, "8"], check=True)
        return [line for line in told.read_text().splitlines() if "show partition" not in line]

    run.state = state
    return run


def job(state, number, *files):
    folder = state / f"hash.{number % 10}" / f"job.{number}"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).touch()


DOWN, UP = (f"scontrol update PartitionName=main State={state}" for state in ("DOWN", "UP"))
LOST = "State=DOWN Reason=restored: its jobs were lost"


def test_after_a_clean_stop_nothing_is_held(started):
    job(started.state, 17, "script")
    (started.state / "stopped_cleanly").touch()

    assert started(waiting=["17"]) == []


def test_jobs_that_wait_without_their_environment_are_cancelled_before_any_starts(started):
    """17 has it, 18 has lost it, 19 is interactive and never had one; 20 runs, and needs it no more."""
    job(started.state, 17, "script", "environment")
    job(started.state, 18, "script")
    job(started.state, 20, "script")

    assert started(waiting=["17", "18", "19"]) == [DOWN, "scancel 18", "sleep 8", UP]


def test_what_ran_when_an_archive_was_made_ends_with_its_nodes(started):
    """Once: on the next start a job that runs is left alone."""
    job(started.state, 20, "script")
    (started.state / "restored").touch()

    assert started(busy=["compute[1-2]", "compute4"]) == [
        DOWN,
        f"scontrol update NodeName=compute[1-2],compute4 {LOST}",
        UP,
    ]
    assert started(busy=["compute1"]) == [DOWN, "sleep 8", UP]


def test_an_archive_without_jobs_ends_nothing(started):
    (started.state / "restored").touch()

    assert started() == [DOWN, UP]
    assert [*started.state.iterdir()] == []
