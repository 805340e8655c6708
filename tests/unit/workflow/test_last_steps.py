# SPDX-License-Identifier: Apache-2.0
"""What comes last in branches, launches and rounds of parallel loops, when they are told to end.

The jobs of CASES wait for seconds, so they run at the same time, each on a node of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.workflow.node import SRUN, Node, steps, wait_for, workflow

AT_ONCE = 8

GROUP = {"steps": steps("touch ~/runs; sleep 20"), "finally": steps("/bin/sleep 1; echo last")}
UNTIL_RUNS = "while [ ! -e ~/runs ]; do sleep 0.1; done; exit 3"


def launch(*some, number=15):
    return {"launch": {"signalOnParentStepExit": number, "steps": steps(*some)}}


def rounds(*some):
    return {"for": {"parallel": True, "items": ["a"], "steps": steps(*some)}}


BRANCHES = {
    "a launch": launch(GROUP, number=0),
    "a round": rounds(GROUP),
    "a launch in a launch": launch(launch(GROUP), "sleep 20", number=0),
    "a round in a launch": launch(rounds(GROUP), number=0),
    "a launch in a round": rounds(launch(GROUP), "sleep 20"),
    "a round in a round": rounds(rounds(GROUP)),
}


WAYS = {"script": (os.kill, ()), "all": (os.killpg, ("sleep 20",))}
ENDED = {
    "steps": steps("touch ~/ending; exit 143"),
    "finally": steps("touch ~/last; /bin/sleep 1; echo last"),
}


def cancelled(node, branch, way):
    tell, after = WAYS[way]
    running = node.start(workflow(BRANCHES[branch], *after))
    wait_for((node.home / "runs").exists)
    tell(running.pid, signal.SIGTERM)
    output, _ = running.communicate(timeout=30)
    return running.returncode, output.decode(), node.left


def launched_in_a_launch(node, number):
    return *node.run(
        workflow(launch(launch(GROUP), "sleep 20", number=number), UNTIL_RUNS)
    ), node.left


def hearing(node, number):
    hears = (
        f"trap 'sleep 1; ls $STORAGE_PATH && echo heard; exit' {number}; touch ~/runs; "
        "while :; do sleep 0.1; done"
    )
    return *node.run(workflow(launch(hears, "echo never", number=number), UNTIL_RUNS)), node.left


def told_for_long(node):
    marks = 'for each in "$STORAGE_PATH"/.branch-*; do touch "$each.end"; done; touch ~/marked'
    branch = launch(
        {"run": {"command": marks}, "finally": steps("touch ~/last; sleep 1; echo last")}, number=0
    )
    running = node.start(workflow(branch, "while [ ! -e ~/told ]; do sleep 0.1; done"))
    wait_for((node.home / "marked").exists)
    with pytest.raises(subprocess.TimeoutExpired):  # longer than any patience
        running.wait(timeout=8)
    early = (node.home / "last").exists()
    for mark in node.root.glob("cache/shared/*/*/.branch-*.end"):
        os.kill(int(mark.name.split("-")[1]), signal.SIGINT)
    (node.home / "told").touch()
    output, _ = running.communicate(timeout=30)
    return running.returncode, output.decode(), early


def told_after_its_tasks(node, told):
    running = with_ending(node).start(workflow(ENDED, "echo never"))
    wait_for((node.home / "asked").exists)
    if told:
        running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=30)
    return running.returncode, output.decode(), node.left


def handlers_within(node, beside):
    within = {"steps": steps("echo one"), "finally": steps("echo two")}
    group = {**ENDED, "finally": steps(within, launch(within, number=0), "echo three")}
    return with_ending(node).run(workflow(launch(group, number=0) if beside else group))[1]


def with_ending(node):
    """Have Slurm end the job once ``~/ending`` is there: it starts no tasks then and answers that
    the job ends.
    """
    node.add("srun", SRUN.replace("\n", '\n[ ! -e "$HOME/ending" ] || exit 1\n', 1))
    node.add("squeue", """#!/bin/sh
        [ -e "$HOME/ending" ] || { echo RUNNING; exit; }
        touch "$HOME/asked"
        echo COMPLETING""")  # fmt: skip
    return node


CASES = [
    (told_for_long,),
    *((told_after_its_tasks, told) for told in (True, False)),
    *((handlers_within, beside) for beside in (False, True)),
    *((cancelled, branch, way) for branch in BRANCHES for way in WAYS),
    *((launched_in_a_launch, number) for number in (2, 10, 15)),
    *((hearing, number) for number in (1, 10, 12, 15)),
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

    with ThreadPoolExecutor(AT_ONCE) as pool:
        started = {case: pool.submit(run, case) for case in CASES}
        yield lambda *case: started[case].result()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("branch", BRANCHES)
def test_what_comes_last_in_a_branch_of_a_cancelled_job_runs_to_its_end(result_of, branch, way):
    """Slurm tells all processes of a job, and the script tells its branches."""
    code, output, left = result_of(cancelled, branch, way)

    assert (code, "last\n" in output, left) == (143, True, []), output


@pytest.mark.parametrize("number", [2, 10, 15])
def test_what_comes_last_in_a_launch_in_a_launch_runs_to_its_end(result_of, number):
    code, output, left = result_of(launched_in_a_launch, number)

    assert (code, "last\n" in output, left) == (3, True, []), output


def test_launch_whose_signal_is_lost_ends_all_the_same(node):
    """Bash loses one INT in a hundred. Whoever told the branch has left his marks, and nothing
    else.
    """
    tells = 'for each in "$STORAGE_PATH"/.branch-*; do touch "$each.end"; echo told >"$each"; done'
    lost = launch(
        {"run": {"command": tells}, "finally": steps("echo last")}, "echo never", number=0
    )

    assert node.run(workflow(lost, "true")) == (130, "last\n")


def test_what_comes_last_waits_while_a_branch_is_still_being_told(result_of):
    """Who tells asks Slurm for each step, so some hear late; that signal must not end what comes
    last.
    """
    assert result_of(told_for_long) == (130, "last\n", False)


@pytest.mark.parametrize("number", [1, 10, 12, 15])
def test_launch_that_hears_its_signal_is_awaited(result_of, number):
    code, output, left = result_of(hearing, number)

    assert (code, "heard\n" in output, "never" in output, left) == (3, True, False, []), output


def test_signal_ends_what_comes_last_in_a_launch_that_had_failed_by_itself(node):
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
def test_what_comes_last_in_a_branch_that_is_told_after_its_tasks_runs_to_its_end(ending, code):
    ended = {
        **ENDED,
        "steps": steps(f"while [ ! -e ~/beside ]; do sleep 0.1; done; touch ~/ending; exit {code}"),
    }
    beside = "touch ~/beside; while [ ! -e ~/told ]; do sleep 0.1; done; exit 143"
    running = ending.start(workflow(launch(ended, number=0), beside))
    wait_for((ending.home / "last").exists)

    running.send_signal(signal.SIGTERM)
    (ending.home / "told").touch()
    output, _ = running.communicate(timeout=30)

    assert (running.returncode, "last\n" in output.decode(), ending.left) == (143, True, []), output


@pytest.mark.parametrize("told", [True, False])
def test_what_comes_last_in_a_job_that_is_told_after_its_tasks_runs_to_its_end(result_of, told):
    code, output, left = result_of(told_after_its_tasks, told)

    said = [word in output for word in ("last\n", "never")]
    assert (code, said, left) == (143, [True, False], []), output


@pytest.mark.parametrize("beside", [False, True])
def test_handlers_within_what_comes_last_run_to_their_end_in_a_job_that_ends(result_of, beside):
    output = result_of(handlers_within, beside)

    assert [output.count(word) for word in ("one\n", "two\n", "three\n")] == [2, 2, 1], output
