# SPDX-License-Identifier: Apache-2.0
"""Tests of ``finally`` steps in launches, parallel iterations and jobs that a signal ends.

A branch is a list of steps that runs in the background: the steps of a ``launch``, or an iteration
of a parallel loop. The mark of a branch is a file that the script creates before it signals the
branch. The jobs of ``CASES`` take seconds, so they run at the same time, each on its own fake node.
"""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
from tests.unit.workflow.node import SRUN, Node, steps, wait_for, workflow

SIMULTANEOUS_JOBS = 8
# A step that runs until a signal ends it. ``~/runs`` shows that it has started.
ENDLESS = {"steps": steps("touch ~/runs; sleep 20"), "finally": steps("/bin/sleep 1; echo last")}
WAIT_AND_FAIL = "while [ ! -e ~/runs ]; do sleep 0.1; done; exit 3"


def launch(*some_steps, signal_number=15):
    return {"launch": {"signalOnParentStepExit": signal_number, "steps": steps(*some_steps)}}


def parallel_loop(*some_steps):
    return {"for": {"parallel": True, "items": ["a"], "steps": steps(*some_steps)}}


BRANCHES = {
    "a launch": launch(ENDLESS, signal_number=0),
    "an iteration": parallel_loop(ENDLESS),
    "a launch in a launch": launch(launch(ENDLESS), "sleep 20", signal_number=0),
    "an iteration in a launch": launch(parallel_loop(ENDLESS), signal_number=0),
    "a launch in an iteration": parallel_loop(launch(ENDLESS), "sleep 20"),
    "an iteration in an iteration": parallel_loop(parallel_loop(ENDLESS)),
}


# How a job is cancelled: the signal goes to the script alone, or to all processes of the job. Each
# value is the function that sends the signal, and more steps of the job.
SENDERS = {"script": (os.kill, ()), "all": (os.killpg, ("sleep 20",))}
# A step that fails as if SIGTERM had ended the step. On a node of let_slurm_end_job(), Slurm ends
# the job when the step creates ``~/ending``.
TERMINATED = {
    "steps": steps("touch ~/ending; exit 143"),
    "finally": steps("touch ~/last; /bin/sleep 1; echo last"),
}


# Each function of this section runs the job of a case. Unless its docstring says otherwise, it
# returns the exit code, the output, and the files that the job should have removed.


def cancel(node, branch, sender):
    """Cancel a job while a step in a branch runs. Slurm then reports that the job is completing."""
    send, later_steps = SENDERS[sender]
    node.add_program(
        "squeue",
        """#!/bin/sh
        [ -e "$HOME/cancelled" ] && echo COMPLETING || echo RUNNING""",
    )
    running_job = node.start(workflow(BRANCHES[branch], *later_steps))
    wait_for((node.home / "runs").exists)
    (node.home / "cancelled").touch()
    send(running_job.pid, signal.SIGTERM)
    output, _ = running_job.communicate(timeout=30)
    return running_job.returncode, output.decode(), node.leftover_files


def end_nested_launch(node, signal_number):
    """End a launch by signal ``signal_number``. The launch contains another launch."""
    nested_launch = launch(launch(ENDLESS), "sleep 20", signal_number=signal_number)
    code, output = node.run(workflow(nested_launch, WAIT_AND_FAIL))
    return code, output, node.leftover_files


def end_launch_with_trap(node, signal_number):
    """End a launch whose step traps the signal. The trap needs the job's directory."""
    trapping_command = (
        f"trap 'sleep 1; ls $STORAGE_PATH && echo trapped; exit' {signal_number}; touch ~/runs; "
        "while :; do sleep 0.1; done"
    )
    branch = launch(trapping_command, "echo never", signal_number=signal_number)
    code, output = node.run(workflow(branch, WAIT_AND_FAIL))
    return code, output, node.leftover_files


def signal_branch_late(node):
    """Send the signal of a branch long after the mark of the branch was written.

    Returns:
        The exit code, the output, and whether the ``finally`` steps started before the signal.
    """
    # The step writes the mark of its branch, as if a sender had begun to signal the branch.
    mark_command = (
        'for each in "$STORAGE_PATH"/.branch-*; do touch "$each.end"; done; touch ~/marked'
    )
    marking = {
        "run": {"command": mark_command},
        "finally": steps("touch ~/last; sleep 1; echo last"),
    }
    branch = launch(marking, signal_number=0)
    running_job = node.start(workflow(branch, "while [ ! -e ~/signalled ]; do sleep 0.1; done"))
    wait_for((node.home / "marked").exists)
    with pytest.raises(subprocess.TimeoutExpired):
        running_job.wait(timeout=8)  # every timeout of the script is shorter
    ran_early = (node.home / "last").exists()
    for mark in node.root.glob("cache/shared/*/*/.branch-*.end"):
        _, pid, _ = mark.name.split("-")  # .branch-PID-TIME.end
        os.kill(int(pid), signal.SIGINT)
    (node.home / "signalled").touch()
    output, _ = running_job.communicate(timeout=30)
    return running_job.returncode, output.decode(), ran_early


def end_job_after_its_tasks(node, is_signalled):
    """End a job whose tasks Slurm has ended already.

    If ``is_signalled`` is true, the script also gets SIGTERM.
    """
    running_job = let_slurm_end_job(node).start(workflow(TERMINATED, "echo never"))
    wait_for((node.home / "asked").exists)
    if is_signalled:
        running_job.send_signal(signal.SIGTERM)
    output, _ = running_job.communicate(timeout=30)
    return running_job.returncode, output.decode(), node.leftover_files


def run_inner_handlers(node, in_launch):
    """Return the output of a job that Slurm ends. Its ``finally`` steps have ``finally`` steps."""
    inner = {"steps": steps("echo one"), "finally": steps("echo two")}
    group = {**TERMINATED, "finally": steps(inner, launch(inner, signal_number=0), "echo three")}
    if in_launch:
        group = launch(group, signal_number=0)
    _, output = let_slurm_end_job(node).run(workflow(group))
    return output


def let_slurm_end_job(node):
    """Make Slurm end the job once ``~/ending`` exists.

    From then on, srun starts no tasks and squeue reports COMPLETING. ``~/asked`` exists once the
    script has called squeue in this state.
    """
    node.add_program("srun", SRUN.replace("\n", '\n[ ! -e "$HOME/ending" ] || exit 1\n', 1))
    node.add_program("squeue", """#!/bin/sh
        [ -e "$HOME/ending" ] || { echo RUNNING; exit; }
        touch "$HOME/asked"
        echo COMPLETING""")  # fmt: skip
    return node


# The functions with their arguments.
CASES = [
    (signal_branch_late,),
    *product([end_job_after_its_tasks], [True, False]),
    *product([run_inner_handlers], [False, True]),
    *product([cancel], BRANCHES, SENDERS),
    *product([end_nested_launch], [2, 10, 15]),
    *product([end_launch_with_trap], [1, 10, 12, 15]),
]


@pytest.fixture(scope="module")
def result_of(tmp_path_factory):
    """Start all cases. Return a function that waits for one case and returns its result."""

    def run(case, node):
        run_job, *arguments = case
        try:
            return run_job(node, *arguments)
        finally:
            node.kill_jobs()

    futures = {}
    with ThreadPoolExecutor(SIMULTANEOUS_JOBS) as pool:
        for case in CASES:
            node = Node(tmp_path_factory.mktemp("node"))
            futures[case] = pool.submit(run, case, node)
        yield lambda *case: futures[case].result()


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("branch", BRANCHES)
def test_finally_steps_in_a_branch_of_a_cancelled_job_run_to_their_end(result_of, branch, sender):
    """Slurm signals all processes of the job, and the script signals the branches of the job."""
    code, output, leftover_files = result_of(cancel, branch, sender)

    assert code == 143, output
    assert "last\n" in output
    assert leftover_files == []


@pytest.mark.parametrize("signal_number", [2, 10, 15])
def test_finally_steps_in_a_nested_launch_run_to_their_end(result_of, signal_number):
    code, output, leftover_files = result_of(end_nested_launch, signal_number)

    assert code == 3, output
    assert "last\n" in output
    assert leftover_files == []


def test_a_launch_ends_even_if_its_signal_was_lost(node):
    """Bash loses about one SIGINT in a hundred. Then the branch finds the marks but gets no signal.

    In this test, a step writes the marks, and no signal is sent.
    """
    mark = 'for each in "$STORAGE_PATH"/.branch-*; do touch "$each.end"; echo sent >"$each"; done'
    marking = {"run": {"command": mark}, "finally": steps("echo last")}
    branch = launch(marking, "echo never", signal_number=0)

    assert node.run(workflow(branch, "true")) == (130, "last\n")


def test_finally_steps_wait_until_the_sender_has_signalled_the_branch(result_of):
    """A signal that arrives late must not end the ``finally`` steps.

    The script calls Slurm to signal each step, so some signals arrive late.
    """
    assert result_of(signal_branch_late) == (130, "last\n", False)


@pytest.mark.parametrize("signal_number", [1, 10, 12, 15])
def test_a_launched_step_that_traps_its_signal_is_awaited(result_of, signal_number):
    code, output, leftover_files = result_of(end_launch_with_trap, signal_number)

    assert code == 3, output
    assert "trapped\n" in output
    assert "never" not in output
    assert leftover_files == []


def test_a_signal_ends_the_finally_steps_of_a_launch_that_has_failed(node):
    failing = {"run": {"command": "exit 3"}, "finally": steps("touch ~/runs; sleep 20; echo never")}
    running_job = node.start(workflow(launch(failing), "sleep 20"))
    wait_for((node.home / "runs").exists)

    os.killpg(running_job.pid, signal.SIGTERM)
    output, _ = running_job.communicate(timeout=15)

    assert running_job.returncode == 143
    assert b"never" not in output
    assert node.leftover_files == []


@pytest.fixture
def ending_node(node):
    """Return a node on which Slurm ends the job once ``~/ending`` exists."""
    return let_slurm_end_job(node)


@pytest.mark.parametrize("code", [0, 143])
def test_finally_steps_in_a_branch_run_if_the_signal_arrives_after_the_end_of_its_tasks(
    ending_node, code
):
    launched_command = f"while [ ! -e ~/parallel ]; do sleep 0.1; done; touch ~/ending; exit {code}"
    branch = launch({**TERMINATED, "steps": steps(launched_command)}, signal_number=0)
    parallel_step = "touch ~/parallel; while [ ! -e ~/sent ]; do sleep 0.1; done; exit 143"
    running_job = ending_node.start(workflow(branch, parallel_step))
    wait_for((ending_node.home / "last").exists)

    running_job.send_signal(signal.SIGTERM)
    (ending_node.home / "sent").touch()
    output, _ = running_job.communicate(timeout=30)

    assert running_job.returncode == 143, output
    assert b"last\n" in output
    assert ending_node.leftover_files == []


@pytest.mark.parametrize("is_signalled", [True, False])
def test_finally_steps_of_a_job_run_if_the_signal_arrives_after_the_end_of_its_tasks(
    result_of, is_signalled
):
    code, output, leftover_files = result_of(end_job_after_its_tasks, is_signalled)

    assert code == 143, output
    assert "last\n" in output
    assert "never" not in output
    assert leftover_files == []


@pytest.mark.parametrize("in_launch", [False, True])
def test_handlers_in_finally_steps_run_to_their_end_in_a_job_that_ends(result_of, in_launch):
    output = result_of(run_inner_handlers, in_launch)

    assert output.count("one\n") == 2, output
    assert output.count("two\n") == 2, output
    assert output.count("three\n") == 1, output
