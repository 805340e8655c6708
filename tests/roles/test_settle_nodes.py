# SPDX-License-Identifier: Apache-2.0
"""Tests of program gridstead-settle-nodes.

The program runs after slurmctld has started. If slurmctld was not stopped cleanly before, the
program sets the open partitions down until the nodes have registered.
"""

import subprocess

import pytest
from tests.roles.catalogue import Role

PROGRAM = Role("slurm").path / "files/usr/local/sbin/gridstead-settle-nodes"
# The fake commands write their calls to $LOG. $PARTITIONS is the output of "scontrol show
# partition". A change of a partition that is not in this output fails. $WAITING has the ids of
# pending jobs, $BUSY the nodes of running jobs, and $NODES a script that prints the states of the
# nodes.
SCONTROL = """
if [[ $* == *"show partition" ]]; then
  printf '%s' "${PARTITIONS}"
else
  echo "scontrol $*" >>"$LOG"
  [[ $2 != PartitionName=* || $'\\n'${PARTITIONS} == *$'\\n'"$2 "* ]]
fi
"""
COMMANDS = {
    "scontrol": SCONTROL,
    "scancel": 'echo "scancel $*" >>"$LOG"',
    "squeue": """
if [[ $* == *PENDING* ]]; then
  printf '%s\\n' $WAITING
else
  printf '%s\\n' $BUSY
fi
""",
    "sinfo": 'eval "$NODES"',
    "sleep": 'echo "sleep $*" >>"$LOG"',
}


@pytest.fixture
def run_after_start(tmp_path, monkeypatch):
    """A function that runs the program with a state of Slurm.

    ``waiting`` has the ids of pending jobs, ``busy`` the nodes of running jobs, ``nodes`` the
    script of the fake sinfo, and ``partitions`` names and states. The function returns the calls of
    scontrol, scancel and sleep. Its attribute ``state`` is slurmctld's state directory.
    """
    state = tmp_path / "state"
    log = tmp_path / "log"
    commands = tmp_path / "bin"
    commands.mkdir()
    state.mkdir()
    for name, script in COMMANDS.items():
        (commands / name).write_text(f"#!/bin/bash\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    monkeypatch.setenv("LOG", str(log))

    def run(*, waiting=(), busy=(), nodes="echo idle", partitions=(("main", "UP"),)):
        log.write_text("")
        monkeypatch.setenv("NODES", nodes)
        output = ""
        for name, partition_state in partitions:
            output += f"PartitionName={name} x State={partition_state} y\n"
        monkeypatch.setenv("PARTITIONS", output)
        monkeypatch.setenv("WAITING", " ".join(waiting))
        monkeypatch.setenv("BUSY", " ".join(busy))
        # After the nodes have registered, the program waits 8 s longer.
        subprocess.run([PROGRAM, "started", state, "8"], check=True)
        return log.read_text().splitlines()

    run.state = state
    return run


def add_job(state, number, *files):
    """Create the folder of a job in slurmctld's state."""
    folder = state / f"hash.{number % 10}" / f"job.{number}"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).touch()


DOWN = "scontrol update PartitionName=main State=DOWN"
UP = "scontrol update PartitionName=main State=UP"
LOST = "State=DOWN Reason=restored: its jobs were lost"


def test_no_job_is_held_after_a_clean_stop(run_after_start):
    add_job(run_after_start.state, 17, "script")
    (run_after_start.state / "stopped_cleanly").touch()

    assert run_after_start(waiting=["17"]) == []


def test_pending_jobs_without_environment_are_cancelled_before_any_job_starts(run_after_start):
    """Only job 18 is cancelled.

    Job 17 has its environment. Job 19 is interactive and has no script. Job 20 is not pending.
    """
    add_job(run_after_start.state, 17, "script", "environment")
    add_job(run_after_start.state, 18, "script")
    add_job(run_after_start.state, 20, "script")

    assert run_after_start(waiting=["17", "18", "19"]) == [DOWN, "scancel 18", "sleep 8", UP]


def test_the_nodes_of_jobs_that_ran_during_the_backup_are_set_down_once(run_after_start):
    """The nodes are set down at the first start of slurmctld after a restoration only."""
    add_job(run_after_start.state, 20, "script")
    (run_after_start.state / "restored").touch()

    assert run_after_start(busy=["compute[1-2]", "compute4"]) == [
        DOWN,
        f"scontrol update NodeName=compute[1-2],compute4 {LOST}",
        UP,
    ]
    assert run_after_start(busy=["compute1"]) == [DOWN, "sleep 8", UP]


def test_a_restored_state_without_jobs_changes_no_node(run_after_start):
    (run_after_start.state / "restored").touch()

    assert run_after_start() == [DOWN, UP]
    assert [*run_after_start.state.iterdir()] == []


@pytest.mark.parametrize(
    "nodes", ["exit 1", "echo unk", "echo 'idle*'; yes idle | head --lines=33000"]
)
def test_the_program_waits_for_unregistered_nodes(run_after_start, nodes):
    """sinfo fails, prints an unknown state, or prints one unregistered node before many others.

    The program waits at most 30 s for unregistered nodes.
    """
    add_job(run_after_start.state, 20, "script")

    assert run_after_start(nodes=nodes) == [DOWN, *["sleep 1"] * 30, "sleep 8", UP]


def test_the_wait_ends_when_the_nodes_register(run_after_start):
    add_job(run_after_start.state, 20, "script")

    assert run_after_start(nodes='grep -q "sleep 1" "$LOG" && echo idle || echo "idle*"') == [
        DOWN,
        "sleep 1",
        "sleep 8",
        UP,
    ]


def test_a_start_without_open_partitions_can_be_interrupted_and_repeated(run_after_start):
    add_job(run_after_start.state, 20, "script")
    with pytest.raises(subprocess.CalledProcessError):
        run_after_start(partitions=[("closed", "DOWN")], nodes="kill $PPID")

    assert (run_after_start.state / "partitions_held").exists()
    assert run_after_start(partitions=[("closed", "DOWN")]) == ["sleep 8"]
    assert not (run_after_start.state / "partitions_held").exists()


def test_a_removed_partition_is_not_opened_again(run_after_start):
    """A partition may have been removed from slurm.conf."""
    add_job(run_after_start.state, 20, "script")
    (run_after_start.state / "partitions_held").write_text("removed\nmain\n")

    assert run_after_start(partitions=[("main", "DOWN"), ("closed", "DOWN")]) == [
        DOWN,
        "sleep 8",
        UP,
    ]
