# SPDX-License-Identifier: Apache-2.0
"""The program that runs after slurmctld starts and before partitions start jobs: held and lost
jobs.
"""

import subprocess

import pytest
from tests.roles.catalogue import Role

PROGRAM = Role("slurm").path / "files/usr/local/sbin/gridstead-settle-nodes"
# Slurm knows no other partition than these lines say, and refuses a change of one.
SCONTROL = """
if [[ $* == *"show partition" ]]; then
  printf '%s' "${PARTITIONS}"
else
  echo "scontrol $*" >>"$TOLD"
  [[ $2 != PartitionName=* || $'\\n'${PARTITIONS} == *$'\\n'"$2 "* ]]
fi
"""
COMMANDS = {
    "scontrol": SCONTROL,
    "scancel": 'echo "scancel $*" >>"$TOLD"',
    "squeue": 'if [[ $* == *PENDING* ]]; then printf "%s\\n" $WAITING; else printf "%s\\n" $BUSY; fi',
    "sinfo": 'eval "$NODES"',
    "sleep": 'echo "sleep $*" >>"$TOLD"',
}


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A function that runs the program with a state of Slurm and returns its commands."""
    state, sent_file, commands = tmp_path / "state", tmp_path / "told", tmp_path / "bin"
    commands.mkdir()
    state.mkdir()
    for name, script in COMMANDS.items():
        (commands / name).write_text(f"#!/bin/bash\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    monkeypatch.setenv("TOLD", str(sent_file))

    def run(*, waiting=(), busy=(), nodes="echo idle", partitions=(("main", "UP"),)):
        sent_file.write_text("")
        monkeypatch.setenv("NODES", nodes)
        monkeypatch.setenv(
            "PARTITIONS",
            "".join(f"PartitionName={name} x State={state} y\n" for name, state in partitions),
        )
        monkeypatch.setenv("WAITING", " ".join(waiting))
        monkeypatch.setenv("BUSY", " ".join(busy))
        subprocess.run([PROGRAM, "started", state, "8"], check=True)
        return sent_file.read_text().splitlines()

    run.state = state
    return run


def job(state, number, *files):
    folder = state / f"hash.{number % 10}" / f"job.{number}"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).touch()


DOWN, UP = (f"scontrol update PartitionName=main State={state}" for state in ("DOWN", "UP"))
LOST = "State=DOWN Reason=restored: its jobs were lost"


def test_no_job_is_held_after_a_clean_stop(started):
    job(started.state, 17, "script")
    (started.state / "stopped_cleanly").touch()

    assert started(waiting=["17"]) == []


def test_pending_jobs_without_environment_are_cancelled_before_any_start(started):
    """Job 17 has its environment and 18 has lost it. Job 19 is interactive and never had one. Job
    20 runs and does not need one.
    """
    job(started.state, 17, "script", "environment")
    job(started.state, 18, "script")
    job(started.state, 20, "script")

    assert started(waiting=["17", "18", "19"]) == [DOWN, "scancel 18", "sleep 8", UP]


def test_jobs_that_ran_during_the_backup_end_with_their_nodes(started):
    """This happens only once: a later start does not end running jobs."""
    job(started.state, 20, "script")
    (started.state / "restored").touch()

    assert started(busy=["compute[1-2]", "compute4"]) == [
        DOWN,
        f"scontrol update NodeName=compute[1-2],compute4 {LOST}",
        UP,
    ]
    assert started(busy=["compute1"]) == [DOWN, "sleep 8", UP]


def test_an_archive_without_jobs_ends_no_job(started):
    (started.state / "restored").touch()

    assert started() == [DOWN, UP]
    assert [*started.state.iterdir()] == []


@pytest.mark.parametrize(
    "nodes", ["exit 1", "echo unk", "echo 'idle*'; yes idle | head --lines=33000"]
)
def test_unregistered_nodes_are_waited_for(started, nodes):
    """The wait continues if Slurm does not answer or lists only the first of many nodes."""
    job(started.state, 20, "script")

    assert started(nodes=nodes) == [DOWN, *["sleep 1"] * 30, "sleep 8", UP]


def test_the_wait_ends_when_the_nodes_register(started):
    job(started.state, 20, "script")

    assert started(nodes='grep -q "sleep 1" "$TOLD" && echo idle || echo "idle*"') == [
        DOWN,
        "sleep 1",
        "sleep 8",
        UP,
    ]


def test_slurmctld_starts_after_an_interrupted_start_without_partitions(
    started,
):
    job(started.state, 20, "script")
    with pytest.raises(subprocess.CalledProcessError):
        started(partitions=[("closed", "DOWN")], nodes="kill $PPID")

    assert (started.state / "partitions_held").exists()
    assert started(partitions=[("closed", "DOWN")]) == ["sleep 8"]
    assert not (started.state / "partitions_held").exists()


def test_only_existing_partitions_are_opened_again(started):
    """A partition may have been removed from slurm.conf."""
    job(started.state, 20, "script")
    (started.state / "partitions_held").write_text("gone\nmain\n")

    assert started(partitions=[("main", "DOWN"), ("closed", "DOWN")]) == [DOWN, "sleep 8", UP]
