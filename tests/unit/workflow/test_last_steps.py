# SPDX-License-Identifier: Apache-2.0
"""Finally steps in branches, launches and parallel iterations, when a signal ends them.

The jobs of CASES wait for seconds, so they run at the same time, each on its own node.
"""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.workflow.node import SRUN, Node, steps, wait_for, workflow

SIMULTANEOUS_JOBS = 8
GROUP = {"steps": steps("touch ~/runs; sleep 20"), "finally": steps("/bin/sleep 1; echo last")}
UNTIL_RUNS = "while [ ! -e ~/runs ]; do sleep 0.1; done; exit 3"


def launch(*some_steps, number=15):
    return {"launch": {"signalOnParentStepExit": number, "steps": steps(*some_steps)}}


def parallel(*some_steps):
    return {"for": {"parallel": True, "items": ["a"], "steps": steps(*some_steps)}}


BRANCHES = {
    "a launch": launch(GROUP, number=0),
    "an iteration": parallel(GROUP),
    "a launch in a launch": launch(launch(GROUP), "sleep 20", number=0),
    "an iteration in a launch": launch(parallel(GROUP), number=0),
    "a launch in an iteration": parallel(launch(GROUP), "sleep 20"),
    "an iteration in an iteration": parallel(parallel(GROUP)),
}


SENDERS = {"script": (os.kill, ()), "all": (os.killpg, ("sleep 20",))}
ENDED = {
    "steps": steps("touch ~/ending; exit 143"),
    "finally": steps("touch ~/last; /bin/sleep 1; echo last"),
}


def cancel(node, branch, sender):
    send, later_steps = SENDERS[sender]
    running = node.start(workflow(BRANCHES[branch], *later_steps))
    wait_for((node.home / "runs").exists)
    send(running.pid, signal.SIGTERM)
    output, _ = running.communicate(timeout=30)
    return running.returncode, output.decode(), node.left


def end_nested_launch(node, number):
    nested = launch(launch(GROUP), "sleep 20", number=number)
    code, output = node.run(workflow(nested, UNTIL_RUNS))
    return code, output, node.left


def end_launch_with_trap(node, number):
    trapping = (
        f"trap 'sleep 1; ls $STORAGE_PATH && echo trapped; exit' {number}; touch ~/runs; "
        "while :; do sleep 0.1; done"
    )
    code, output = node.run(workflow(launch(trapping, "echo never", number=number), UNTIL_RUNS))
    return code, output, node.left


def signal_branch_late(node):
    marks = 'for each in "$STORAGE_PATH"/.branch-*; do touch "$each.end"; done; touch ~/marked'
    branch = launch(
        {"run": {"command": marks}, "finally": steps("touch ~/last; sleep 1; echo last")}, number=0
    )
    running = node.start(workflow(branch, "while [ ! -e ~/signalled ]; do sleep 0.1; done"))
    wait_for((node.home / "marked").exists)
    with pytest.raises(subprocess.TimeoutExpired):  # longer than every timeout of the script
        running.wait(timeout=8)
    ran_early = (node.home / "last").exists()
    for mark in node.root.glob("cache/shared/*/*/.branch-*.end"):
        os.kill(int(mark.name.split("-")[1]), signal.SIGINT)
    (node.home / "signalled").touch()
    output, _ = running.communicate(timeout=30)
    return running.returncode, output.decode(), ran_early


def end_job_after_its_tasks(node, is_signalled):
    running = with_ending(node).start(workflow(ENDED, "echo never"))
    wait_for((node.home / "asked").exists)
    if is_signalled:
        running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=30)
    return running.returncode, output.decode(), node.left


def run_inner_handlers(node, in_launch):
    inner = {"steps": steps("echo one"), "finally": steps("echo two")}
    group = {**ENDED, "finally": steps(inner, launch(inner, number=0), "echo three")}
    _, output = with_ending(node).run(workflow(launch(group, number=0) if in_launch else group))
    return output


def with_ending(node):
    """Let Slurm end the job when ``~/ending`` exists: it starts no tasks and reports COMPLETING."""
    node.add("srun", SRUN.replace("\n", '\n[ ! -e "$HOME/ending" ] || exit 1\n', 1))
    node.add("squeue", """#!/bin/sh
        [ -e "$HOME/ending" ] || { echo RUNNING; exit; }
        touch "$HOME/asked"
        echo COMPLETING""")  # fmt: skip
    return node


CASES = [
    (signal_branch_late,),
    *((end_job_after_its_tasks, is_signalled) for is_signalled in (True, False)),
    *((run_inner_handlers, in_launch) for in_launch in (False, True)),
    *((cancel, branch, sender) for branch in BRANCHES for sender in SENDERS),
    *((end_nested_launch, number) for number in (2, 10, 15)),
    *((end_launch_with_trap, number) for number in (1, 10, 12, 15)),
]


@pytest.fixture(scope="module")
def result_of(tmp_path_factory):
    """Start all cases and return a function that returns the result of one."""
    nodes = {case: Node(tmp_path_factory.mktemp("node")) for case in CASES}

    def run(case):
        node = nodes[case]
        try:
            return case[0](node, *case[1:])
        finally:
            node.end()

    with ThreadPoolExecutor(SIMULTANEOUS_JOBS) as pool:
        started = {case: pool.submit(run, case) for case in CASES}
        yield lambda *case: started[case].result()


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("branch", BRANCHES)
def test_finally_steps_in_a_branch_of_a_cancelled_job_run_to_their_end(result_of, branch, sender):
    """Slurm signals all processes of a job, and the script signals its branches."""
    code, output, left = result_of(cancel, branch, sender)

    assert (code, "last\n" in output, left) == (143, True, []), output


@pytest.mark.parametrize("number", [2, 10, 15])
def test_finally_steps_in_a_nested_launch_run_to_their_end(result_of, number):
    code, output, left = result_of(end_nested_launch, number)

    assert (code, "last\n" in output, left) == (3, True, []), output


def test_a_launch_ends_although_its_signal_was_lost(node):
    """Bash loses one INT in a hundred. Then only the marks of the sender exist."""
    marks = 'for each in "$STORAGE_PATH"/.branch-*; do touch "$each.end"; echo sent >"$each"; done'
    lost = launch(
        {"run": {"command": marks}, "finally": steps("echo last")}, "echo never", number=0
    )

    assert node.run(workflow(lost, "true")) == (130, "last\n")


def test_finally_steps_wait_until_the_sender_has_signalled_the_branch(result_of):
    """The sender calls Slurm for each step, so some signals arrive late. Such a signal must not end
    the finally steps.
    """
    assert result_of(signal_branch_late) == (130, "last\n", False)


@pytest.mark.parametrize("number", [1, 10, 12, 15])
def test_a_launch_that_traps_its_signal_is_awaited(result_of, number):
    code, output, left = result_of(end_launch_with_trap, number)

    assert (code, "trapped\n" in output, "never" in output, left) == (3, True, False, []), output


def test_a_signal_ends_the_finally_steps_of_a_launch_that_has_failed(node):
    failing = {"run": {"command": "exit 3"}, "finally": steps("touch ~/runs; sleep 20; echo never")}
    running = node.start(workflow(launch(failing), "sleep 20"))
    wait_for((node.home / "runs").exists)

    os.killpg(running.pid, signal.SIGTERM)
    output, _ = running.communicate(timeout=15)

    assert (running.returncode, b"never" in output, node.left) == (143, False, [])


@pytest.fixture
def ending(node):
    return with_ending(node)


@pytest.mark.parametrize("code", [0, 143])
def test_finally_steps_in_a_branch_run_if_the_signal_arrives_after_the_end_of_its_tasks(
    ending, code
):
    ended = {
        **ENDED,
        "steps": steps(
            f"while [ ! -e ~/parallel ]; do sleep 0.1; done; touch ~/ending; exit {code}"
        ),
    }
    parallel_step = "touch ~/parallel; while [ ! -e ~/sent ]; do sleep 0.1; done; exit 143"
    running = ending.start(workflow(launch(ended, number=0), parallel_step))
    wait_for((ending.home / "last").exists)

    running.send_signal(signal.SIGTERM)
    (ending.home / "sent").touch()
    output, _ = running.communicate(timeout=30)

    assert (running.returncode, "last\n" in output.decode(), ending.left) == (143, True, []), output


@pytest.mark.parametrize("is_signalled", [True, False])
def test_finally_steps_of_a_job_run_if_the_signal_arrives_after_the_end_of_its_tasks(
    result_of, is_signalled
):
    code, output, left = result_of(end_job_after_its_tasks, is_signalled)

    assert (code, "last\n" in output, "never" in output) == (143, True, False), output
    assert left == []


@pytest.mark.parametrize("in_launch", [False, True])
def test_handlers_in_finally_steps_run_to_their_end_in_a_job_that_ends(result_of, in_launch):
    output = result_of(run_inner_handlers, in_launch)

    assert [output.count(word) for word in ("one\n", "two\n", "three\n")] == [2, 2, 1], output
