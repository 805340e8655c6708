# SPDX-License-Identifier: Apache-2.0
"""Tests of retries. A job script calls srun again if Slurm did not create the step.

After Slurm has created a step, the job script never starts this step again.
"""

from __future__ import annotations

import os
import signal

import pytest
from tests.unit.workflow import networks
from tests.unit.workflow.node import SRUN, steps, wait_for, workflow

from gridstead.workflow.render.helpers import START_TIMEOUTS_S

# Fails like srun while ``~/refusals`` has lines, and removes one line per failure. Never fails for
# steps with the name ``free``.
FAILING_SRUN = r"""#!/bin/bash
echo >>~/srun-calls
{first}
if [[ -s ~/refusals && $* != *--job-name=free* ]]; then
  sed -i 1d ~/refusals
  echo "srun: error: Unable to confirm allocation" >&2
  exit {code}
fi
exec real-srun "$@"
"""
RUN_PROLOG = '"${1#*=}"'  # the value of the first option, --prolog
LONG_SLEEP = "#!/bin/bash\necho >~/paused\nexec /bin/sleep 30\n"


def make_srun_fail(node, times, *, code=1, first=""):
    """Install an srun that fails ``times`` times. Each call first runs the bash code ``first``."""
    node.add_program("real-srun", SRUN)
    node.add_program("srun", FAILING_SRUN.format(code=code, first=first))
    (node.home / "refusals").write_text("no\n" * times)


def start_slurmctld(node, *, seconds_ago):
    """Install a scontrol that reports that slurmctld started ``seconds_ago`` seconds ago.

    1 means that slurmctld has just restarted. 3600 means that it has run since before the job.
    """
    boot_time = f"BOOT_TIME               = $((EPOCHSECONDS - {seconds_ago}))"
    node.add_program("scontrol", f'#!/bin/bash\necho "{boot_time}"\n')


def srun_count(node):
    """Return the number of calls of srun."""
    return len((node.home / "srun-calls").read_text().splitlines())


@pytest.fixture
def node(node):
    """Return a node on which the script does not pause between two calls of srun."""
    node.add_program("sleep", '#!/bin/bash\n[[ $1 == 2 ]] || exec /bin/sleep "$@"\n')
    return node


class TestRetried:
    def test_a_step_that_was_not_created_while_slurmctld_started_is_retried(self, node):
        start_slurmctld(node, seconds_ago=1)
        make_srun_fail(node, 2)

        code, output = node.run(workflow("echo ran; exit 3"))

        assert code == 3
        assert output.count("ran\n") == 1
        assert srun_count(node) == 3
        assert output.count("gridstead: Slurm did not create this step; retrying\n") == 1
        assert node.leftover_files == []

    def test_a_step_is_retried_until_slurmctld_answers(self, node):
        node.add_program("scontrol", "#!/bin/sh\nexit 1\n")
        make_srun_fail(node, 1)

        assert node.run(workflow("echo ran"))[0] == 0

    def test_a_step_in_a_container_is_retried(self, node):
        node.add_program("apptainer", '#!/bin/bash\nexec "${@: -3}"\n')
        start_slurmctld(node, seconds_ago=1)
        make_srun_fail(node, 1)
        step = {
            "run": {"command": "echo ran", "container": {"image": "/some.sqsh", "apptainer": True}}
        }

        code, output = node.run(workflow("touch some.sqsh", step))

        assert (code, output.count("ran\n")) == (0, 1)

    def test_the_step_id_of_a_retried_step_in_a_launch_is_recorded(self, node):
        node.add_program(
            "scancel", '#!/bin/bash\necho "$@" >>"$HOME/scancel"\ntouch "$HOME/signalled"\n'
        )
        start_slurmctld(node, seconds_ago=1)
        make_srun_fail(node, 1)
        inner = steps("touch ~/at; while [ ! -e ~/signalled ]; do :; done")
        launch = {"launch": {"signalOnParentStepExit": 15, "steps": inner}}
        group = {"steps": steps(launch, "while [ ! -e ~/at ]; do :; done")}

        code, _ = node.run(workflow(group), SLURM_STEP_ID="7")

        assert code == 0
        assert (node.home / "scancel").read_text() == "--signal=15 42.7\n"

    def test_a_step_that_waits_for_its_resources_is_retried(self, node, monkeypatch):
        """A real srun fails after its timeout. Here it fails at once, so the timeout is 0 s."""
        monkeypatch.setitem(START_TIMEOUTS_S, "call_timeout", 0)
        start_slurmctld(node, seconds_ago=3600)
        make_srun_fail(node, 2)

        assert node.run(workflow("echo ran"))[0] == 0

    def test_a_retried_step_reads_its_tunnel_keys(self, node):
        """srun reads its input only for the tasks of a created step."""
        networks.install(node)
        start_slurmctld(node, seconds_ago=1)
        make_srun_fail(node, 1)

        code, output = node.run(workflow(networks.step("echo ran", {"wireguard": networks.TUNNEL})))

        assert (code, output.count("ran\n")) == (0, 1)
        assert networks.KEY in networks.tunnels(node)[0][1]


class TestNotRetried:
    # The timeout is START_TIMEOUTS_S["restart_timeout"] if slurmctld has restarted during the
    # step, otherwise START_TIMEOUTS_S["start_timeout"].
    @pytest.mark.parametrize(
        ("timeout", "seconds_ago"), [("start_timeout", 3600), ("restart_timeout", 1)]
    )
    def test_a_step_is_not_retried_after_a_timeout(self, node, monkeypatch, timeout, seconds_ago):
        monkeypatch.setitem(START_TIMEOUTS_S, "call_timeout", 0)
        monkeypatch.setitem(START_TIMEOUTS_S, timeout, 0)
        start_slurmctld(node, seconds_ago=seconds_ago)
        make_srun_fail(node, 1)

        assert node.run(workflow("echo never"))[0] == 1
        assert srun_count(node) == 1

    def test_a_created_step_is_not_retried(self, node):
        """srun fails after the prolog if it can start only some of the tasks."""
        start_slurmctld(node, seconds_ago=1)
        make_srun_fail(node, 1, first=RUN_PROLOG)

        assert node.run(workflow("echo never"))[0] == 1
        assert srun_count(node) == 1

    def test_a_command_that_fails_with_the_exit_code_of_a_failed_srun_is_not_retried(self, node):
        start_slurmctld(node, seconds_ago=1)
        make_srun_fail(node, 0)

        assert node.run(workflow("echo ran; exit 1")) == (1, "ran\n")

    def test_a_step_is_not_retried_after_an_exit_code_that_srun_does_not_use(self, node):
        start_slurmctld(node, seconds_ago=1)
        make_srun_fail(node, 1, code=137)

        assert node.run(workflow("echo never"))[0] == 137
        assert srun_count(node) == 1

    def test_a_step_that_slurm_rejects_is_not_retried(self, node):
        start_slurmctld(node, seconds_ago=3600)
        make_srun_fail(node, 1)

        code, output = node.run(workflow("echo never"))

        assert code == 1
        assert srun_count(node) == 1
        assert "gridstead" not in output

    def test_a_step_whose_prolog_could_not_be_written_is_not_retried(self, node):
        """On a full file system, a write can fail as late as at the close of the file."""
        node.add_program("install", '#!/bin/sh\n/usr/bin/install "$@"\nexit 1\n')
        start_slurmctld(node, seconds_ago=1)
        make_srun_fail(node, 1)

        assert node.run(workflow("echo never"))[0] == 1
        assert srun_count(node) == 1

    def test_a_step_with_too_many_words_for_a_prolog_is_not_retried(self, node):
        """srun 24.11 passes at most 1,024 words to a prolog. Such a step is started once, with the
        whole timeout.
        """
        node.add_program("apptainer", "#!/bin/bash\necho $#\n")
        words = {
            "command": "word " * 1000,
            "shell": "ENTRYPOINT",
            "container": {"image": "/some.sqsh", "apptainer": True},
        }

        code, output = node.run(workflow("touch some.sqsh", {"run": words}))

        assert code == 0, output
        # The whole timeout is START_TIMEOUTS_S["start_timeout"].
        assert node.srun_calls[1][0] == "--immediate=60"


class TestSignals:
    def test_a_cancelled_step_runs_its_trap(self, node):
        command = (
            "trap 'sleep 0.3; echo last; exit 9' TERM; echo >~/at; while :; do sleep 0.05; done"
        )
        running_job = node.start(workflow(command))
        wait_for((node.home / "at").exists)

        os.killpg(running_job.pid, signal.SIGTERM)
        output, _ = running_job.communicate(timeout=20)

        assert running_job.returncode == 9
        assert output.splitlines()[-1] == b"last"

    @pytest.mark.parametrize("marker_name", ["srun-calls", "paused"])
    def test_a_signal_during_a_retry_ends_the_step_at_once(self, node, marker_name):
        """The test signals every process of the job, as Slurm does at a cancellation."""
        start_slurmctld(node, seconds_ago=1)
        node.add_program("sleep", LONG_SLEEP)
        first = "/bin/sleep 30" if marker_name == "srun-calls" else ""
        make_srun_fail(node, 1, first=first)
        running_job = node.start(workflow("echo never"))
        marker = node.home / marker_name
        wait_for(lambda: marker.exists() and marker.stat().st_size)

        os.killpg(running_job.pid, signal.SIGTERM)
        output, _ = running_job.communicate(timeout=20)

        assert running_job.returncode in (1, 143)
        assert b"never" not in output
        assert srun_count(node) == 1
        assert node.leftover_files == []

    def test_the_end_of_a_launch_ends_a_retried_step(self, node):
        """The step has no step id yet, so the script must signal the processes of the step."""
        start_slurmctld(node, seconds_ago=1)
        node.add_program("sleep", LONG_SLEEP)
        make_srun_fail(node, 1)
        launch = {"launch": {"steps": steps("echo never")}}
        free_step = {"name": "free", "run": {"command": "while [ ! -e ~/paused ]; do :; done"}}

        code, output = node.run(
            workflow(
                {"steps": steps(launch, free_step)}, {"name": "free", "run": {"command": "true"}}
            )
        )

        assert code == 0
        assert "never" not in output
        assert srun_count(node) == 3  # one call for each step
        assert node.leftover_files == []
