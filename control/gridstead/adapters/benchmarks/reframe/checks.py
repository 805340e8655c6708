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
from reframe.core.exceptions import SanityError

STEPS = {
    step["name"]: step for step in json.loads(Path(__file__).with_name("steps.json").read_text())
}
# The states of Slurm, and of jobs without a scheduler.
SUCCESSFUL_STATES = ("COMPLETED", "SUCCESS")
FAILED_STATES = ("FAILED", "FAILURE")
SRUN_OPTIONS = ("--label", "--mpi=pmix", "--kill-on-bad-exit=1")
TIMED_OUT = 124  # exit code of the program timeout
KILL_AFTER_S = 10  # A task that ignores SIGTERM gets SIGKILL.
# Slurm counts limits in minutes. Its limit is only needed if a node cannot end the tasks.
SPARE_S = 60


@reframe.simple_test
class BenchmarkStep(reframe.RunOnlyRegressionTest):
    """Runs the script of a step in each of its tasks. It succeeds if all tasks exit with 0."""

    step = parameter(STEPS)
    sourcesdir = None
    executable = "bash"

    @run_after("init")
    def use_step(self) -> None:
        """Use the size, the limits and the script of the step."""
        self.valid_systems = ["*"]
        self.valid_prog_environs = ["*"]
        step = STEPS[self.step]
        self.num_tasks_per_node = step["tasks_per_node"]
        self.num_tasks = step["tasks_per_node"] * len(step["nodes"])
        self.time_limit = f"{step['limit_s'] + SPARE_S}s"
        self.max_pending_time = f"{step['start_limit_s']}s"
        self.executable_opts = [step["script_file"]]

    @run_before("run")
    def use_nodes(self) -> None:
        """Use the nodes of the step, and end its tasks after its limit."""
        step = STEPS[self.step]
        nodes = ",".join(step["nodes"])
        self.job.options = [f"--nodelist={nodes}", "--mem=0", "--hint=nomultithread"]
        if step["gpus_per_node"]:
            self.job.options.append(f"--gres=gpu:{step['gpus_per_node']}")
        self.job.launcher.options = list(SRUN_OPTIONS)
        self.job.launcher.modifier = "timeout"
        self.job.launcher.modifier_options = [f"--kill-after={KILL_AFTER_S}", f"{step['limit_s']}"]

    @sanity_function
    def has_succeeded(self) -> bool:
        """Return True. Raises SanityError with the reason if the job did not succeed.

        Two of the reasons are known to ``../steps.py``.
        """
        state, exit_code = self.job.state, self.job.exitcode
        has_started = Path(self.stagedir, str(self.job.stdout)).exists()
        if state == "CANCELLED" and not has_started:
            raise SanityError("it did not start in time")
        if exit_code == TIMED_OUT:
            raise SanityError(f"it did not end within {STEPS[self.step]['limit_s']} s")
        if state in FAILED_STATES:
            raise SanityError(f"it exited with {exit_code}")
        if state not in SUCCESSFUL_STATES:
            raise SanityError(f"it ended as {state}")
        return True
