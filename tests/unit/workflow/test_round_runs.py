# SPDX-License-Identifier: Apache-2.0
"""Parallel loops in the rendered script that have more rounds than fit into the job."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from tests.unit.workflow.node import steps, wait_for, workflow

from gridstead.workflow.parse import check_workflow
from gridstead.workflow.render import render

RECIPE = Path(__file__).resolve().parents[3] / "docs/howto/sweep.md"


def loop(rounds, *body, **fields):
    numbers = {"begin": 0, "end": rounds - 1}
    return {"for": {"parallel": True, "range": numbers, "steps": steps(*body)}, **fields}


def processes_of(job):
    """Return the processes of a job, which are in its session."""
    sessions = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        sessions.append(int(fields[3]))
    return sessions.count(job.pid)


class TestOrder:
    def test_rounds_start_in_order(self, node):
        job = workflow(loop(5, 'echo "$index"'), tasks=1)

        assert node.run(job) == (0, "0\n1\n2\n3\n4\n")

    def test_no_more_rounds_run_at_once_than_fit_into_the_job(self, node):
        """Each round has a file while it runs, and fails if it finds more than two files."""
        body = (
            'touch "run.$index"; [ "$(ls | grep -c "^run")" -le 2 ] || code=1;'
            ' rm "run.$index"; exit "${code:-0}"'
        )
        job = workflow(loop(12, body, "true"), tasks=2)

        assert node.run(job) == (0, "")

    def test_a_round_starts_as_soon_as_any_round_ends(self, node):
        """Round 0 ends only after all later rounds, which run one after the other meanwhile."""
        body = (
            'if [ "$index" = 0 ]; then while [ ! -e at.5 ]; do sleep 0.02; done; fi;'
            ' echo "$index"; touch "at.$index"'
        )

        code, output = node.run(workflow(loop(6, body), tasks=2))

        assert code == 0
        assert output == "1\n2\n3\n4\n5\n0\n"

    def test_items_can_be_more_than_fit_into_the_job(self, node):
        items = ["a b", "", "$HOME", "it's", "*", "$(touch owned)", "-n"]
        loop_of_items = {
            "for": {"parallel": True, "items": items, "steps": steps('printf "<%s>" "$item"')}
        }

        assert node.run(workflow(loop_of_items, tasks=1)) == (0, "".join(f"<{i}>" for i in items))
        assert not list(node.root.rglob("owned"))


class TestFailure:
    def test_every_round_runs_after_a_failure_and_the_first_failure_counts(self, node):
        # Round 1 fails after rounds 2 to 4, and comes first in the order of the loop.
        body = (
            'echo "$index" >>started;'
            ' case "$index" in 1) while [ ! -e at.5 ]; do sleep 0.02; done; exit 7 ;;'
            " 2 | 4) exit 6 ;; 5) touch at.5 ;; esac"
        )
        job = workflow(
            loop(6, body, catch=steps('echo $(sort started); exit "$DEEPSQUARE_ERROR_CODE"')),
            "echo never",
            tasks=2,
        )

        assert node.run(job) == (7, "0 1 2 3 4 5\n")

    @pytest.mark.parametrize("tasks", [1, 4])
    def test_a_killed_round_fails_and_the_next_round_starts(self, node, tasks):
        """Round 0 kills its shell, from which the script started the subshell of the step."""
        body = """
            parent() { cut -d" " -f4 "/proc/$1/stat"; }
            [ "$index" != 0 ] || kill -KILL "$(parent "$(parent "$PPID")")"
            echo "$index"
        """

        code, output = node.run(workflow(loop(5, body), tasks=tasks))

        assert code == 137
        assert sorted(output) == sorted("0\n1\n2\n3\n4\n"), "bash prints no message about the kill"

    def test_handlers_of_each_round_run(self, node):
        failing = {
            "run": {"command": 'exit "$index"'},
            "catch": steps('echo "caught $index"'),
            "finally": steps('echo "last $index"'),
        }

        code, output = node.run(workflow(loop(3, failing), tasks=1))

        assert code == 0
        assert output.split("\n")[:-1] == [
            "last 0", "caught 1", "last 1", "caught 2", "last 2",
        ]  # fmt: skip

    def test_a_round_waits_for_its_own_launch(self, node):
        launch = {"launch": {"handleName": "a", "steps": steps('echo "launched $index"')}}
        wait = {"dependsOn": ["a"], "run": {"command": 'echo "waited $index"'}}

        code, output = node.run(workflow(loop(3, launch, wait), tasks=1))

        assert code == 0
        expected = [f"{word} {number}" for number in range(3) for word in ("launched", "waited")]
        assert output.splitlines() == expected


class TestCancellation:
    @pytest.mark.parametrize("send", [os.kill, os.killpg])
    def test_a_cancelled_job_starts_no_waiting_round(self, node, send):
        body = {
            "run": {"command": 'touch "at.$index"; sleep 20'},
            "finally": steps('echo "last $index"'),
        }
        running_job = node.start(workflow(loop(1000, body), tasks=2))
        wait_for(lambda: len(list(node.root.glob("cache/shared/*/*/at.*"))) == 2)

        send(running_job.pid, signal.SIGTERM)
        output, _ = running_job.communicate(timeout=30)

        assert running_job.returncode == 143
        last = [line for line in output.decode().splitlines() if line.startswith("last")]
        assert sorted(last) == ["last 0", "last 1"]
        assert node.leftover_files == []

    def test_a_round_that_bash_has_forgotten_does_not_block_a_cancelled_job(self, node):
        """If a signal interrupts a wait, bash may forget a process that has just ended."""
        job = workflow(loop(2, 'touch "at.$index"; sleep 20'), tasks=2)
        forgetful = """
            wait() {
              if ((ended)) && [[ $1 != -n ]]; then sleep 20; else builtin wait "$@"; fi
            }
        """
        text = render(job, paths=node.script_paths)
        running_job = node.start(job, text=text.replace("# --- The job ---\n", forgetful))
        wait_for(lambda: len(list(node.root.glob("cache/shared/*/*/at.*"))) == 2)

        os.killpg(running_job.pid, signal.SIGTERM)
        running_job.communicate(timeout=10)

        assert running_job.returncode == 143

    def test_a_launch_that_bash_has_forgotten_does_not_block_a_cancelled_job(self, node):
        job = workflow({"launch": {"steps": steps("touch at.0; sleep 20")}}, "touch at.1; sleep 20")
        forgetful = """
            wait() { if [[ -e /proc/$1 ]]; then builtin wait "$@"; else sleep 20; fi; }
            eval "fast_$(declare -f send_end_signal)"
            send_end_signal() {
              fast_send_end_signal "$@"
              ((ended)) || return 0
              while [[ -e /proc/$1 ]]; do sleep 0.02; done
            }
        """
        text = render(job, paths=node.script_paths)
        running_job = node.start(job, text=text.replace("# --- The job ---\n", forgetful))
        wait_for(lambda: len(list(node.root.glob("cache/shared/*/*/at.*"))) == 2)

        os.killpg(running_job.pid, signal.SIGTERM)
        running_job.communicate(timeout=10)

        assert running_job.returncode == 143

    def test_the_end_of_a_launch_ends_its_loop(self, node):
        launch = {"launch": {"steps": [loop(1000, 'touch "at.$index"; sleep 20')]}}
        wait = "while [ ! -e at.0 ]; do sleep 0.02; done"

        code, output = node.run(workflow(launch, wait, "ls at.*", tasks=2))

        assert (code, output) == (0, "at.0\n")
        assert node.leftover_files == []


class TestSize:
    def test_a_huge_range_needs_few_processes_files_and_script_lines(self, node):
        command = 'touch "at.$((index % 5))"'
        small_job = workflow(loop(2, command), tasks=2)
        job = workflow(loop(2_000_000_000, command), tasks=2)
        running_job = node.start(job)
        wait_for(lambda: len(list(node.root.glob("cache/shared/*/*/at.*"))) == 5)

        process_count = processes_of(running_job)
        storage = next(node.root.glob("cache/shared/*/*"))
        branches = list(storage.glob(".branch-*"))
        os.kill(running_job.pid, signal.SIGTERM)
        running_job.communicate(timeout=20)

        # Each of two rounds has its shell, a subshell, srun, the command, and their own programs.
        assert process_count <= 50
        assert len(branches) <= 4, "the script removes the files of rounds that have ended"
        assert len(render(job)) < len(render(small_job)) + 20
        assert node.leftover_files == []


def test_the_sweeps_of_the_recipe_are_valid_and_run(node):
    blocks = re.findall(r"^```yaml\n(.*?)^```$", RECIPE.read_text(), re.DOTALL | re.MULTILINE)
    checked_jobs = [check_workflow(block, strict=True) for block in blocks]

    assert all(job.warnings == () for job in checked_jobs)
    (code, sweep), two_parameters, failures = (node.run(job.workflow) for job in checked_jobs)
    assert code == 0
    assert len(sweep.splitlines()) == 20
    assert sweep.startswith("2.1 0.5238\n")
    products = [f"{row} {column} {row * column}\n" for row in range(3) for column in range(5)]
    assert two_parameters == (0, "".join(products))
    assert failures == (0, "done 1 2 4 5, failed 3 6\n")
