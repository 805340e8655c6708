# SPDX-License-Identifier: Apache-2.0
"""The tests that ReFrame runs: one for each step in the file steps.json next to this file.

``../steps.py`` copies this file and writes the steps. ReFrame runs the copy in its own environment,
in which gridstead is not installed.
"""

from __future__ import annotations

import json
from pathlib import Path

import reframe
from reframe.core.builtins import parameter, run_after, run_before, sanity_function
from reframe.utility import sanity

STEPS = {
    step["name"]: step for step in json.loads(Path(__file__).with_name("steps.json").read_text())
}
SUCCESSFUL_STATES = ("COMPLETED", "SUCCESS")  # of Slurm, and of jobs without a scheduler
SRUN_OPTIONS = ("--label", "--mpi=pmix", "--kill-on-bad-exit=1")


@reframe.simple_test
class BenchmarkStep(reframe.RunOnlyRegressionTest):
    """Runs the script of a step in each of its tasks. It succeeds if all tasks exit with 0."""

    step = parameter(STEPS)
    sourcesdir = None
    executable = "bash"

    @run_after("init")
    def use_step(self) -> None:
        """Use the size, the limit and the script of the step."""
        self.valid_systems = ["*"]
        self.valid_prog_environs = ["*"]
        step = STEPS[self.step]
        self.num_tasks_per_node = step["tasks_per_node"]
        self.num_tasks = step["tasks_per_node"] * len(step["nodes"])
        self.time_limit = f"{step['limit_s']}s"
        self.executable_opts = [step["script_file"]]

    @run_before("run")
    def use_nodes(self) -> None:
        """Use the nodes of the step."""
        nodes = ",".join(STEPS[self.step]["nodes"])
        self.job.options = [f"--nodelist={nodes}", "--mem=0", "--hint=nomultithread"]
        self.job.launcher.options = list(SRUN_OPTIONS)

    @sanity_function
    def has_succeeded(self) -> object:
        """Return the check of the exit code, which ReFrame evaluates after the job."""
        # A job that exceeded its limit has the exit code 0.
        return sanity.all(
            [
                sanity.assert_eq(self.job.exitcode, 0, msg="it exited with {0}"),
                sanity.assert_in(self.job.state, SUCCESSFUL_STATES, msg="it ended as {0}"),
            ]
        )
