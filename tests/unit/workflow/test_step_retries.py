# SPDX-License-Identifier: Apache-2.0
"""Retries of steps that Slurm did not create. A step that Slurm created never starts twice."""

from __future__ import annotations

import os
import signal

import pytest
from tests.unit.workflow import networks
from tests.unit.workflow.node import SRUN, steps, wait_for, workflow

from gridstead.workflow.render.steps import RETRY_S

# Fails as srun does, as often as a file has lines, except for steps with the name free.
REFUSING = r"""#!/bin/bash
echo >>~/asked
{first}
if [[ -s ~/refusals && $* != *--job-name=free* ]]; then
  sed -i 1d ~/refusals
  echo "srun: error: Unable to confirm allocation" >&2
  exit {code}
fi
exec real-srun "$@"
"""
PROLOG = '"${1#*=}"'
PAUSE = "#!/bin/bash\necho >~/paused\nexec /bin/sleep 30\n"


def refuse(node, times, *, code=1, first=""):
    """Install an srun that fails this number of times."""
    node.add("real-srun", SRUN)
    node.add("srun", REFUSING.format(code=code, first=first))
    (node.home / "refusals").write_text("no\n" * times)


def start_slurmctld(node, ago):
    """Install a scontrol that reports a start of slurmctld some seconds ago."""
    node.add(
        "scontrol", f'#!/bin/bash\necho "BOOT_TIME               = $((EPOCHSECONDS - {ago}))"\n'
    )


def tries(node):
    """Return the number of calls of srun."""
    return len((node.home / "asked").read_text().splitlines())


@pytest.fixture
def node(node):
    # No pause between two tries.
    node.add("sleep", '#!/bin/bash\n[[ $1 == 2 ]] || exec /bin/sleep "$@"\n')
    return node


class TestRetried:
    def test_a_step_that_was_not_created_while_slurmctld_started_is_retried(self, node):
        start_slurmctld(node, ago=1)
        refuse(node, 2)

        code, output = node.run(workflow("echo ran; exit 3"))

        assert (code, output.count("ran\n"), tries(node)) == (3, 1, 3)
        assert output.count("gridstead: Slurm did not create this step; retrying\n") == 1
        assert node.left == []

    def test_a_step_is_retried_until_slurmctld_answers(self, node):
        node.add("scontrol", "#!/bin/sh\nexit 1\n")
        refuse(node, 1)

        assert node.run(workflow("echo ran"))[0] == 0

    def test_a_step_in_a_container_is_retried(self, node):
        node.add("apptainer", '#!/bin/bash\nexec "${@: -3}"\n')
        start_slurmctld(node, ago=1)
        refuse(node, 1)
        step = {
            "run": {"command": "echo ran", "container": {"image": "/some.sqsh", "apptainer": True}}
        }

        code, output = node.run(workflow("touch some.sqsh", step))

        assert (code, output.count("ran\n")) == (0, 1)

    def test_a_retried_launched_step_has_a_recorded_step_id(self, node):
        node.add("scancel", '#!/bin/bash\necho "$@" >>"$HOME/scancel"\ntouch "$HOME/signalled"\n')
        start_slurmctld(node, ago=1)
        refuse(node, 1)
        inner = steps("touch ~/at; while [ ! -e ~/signalled ]; do :; done")
        launch = {"launch": {"signalOnParentStepExit": 15, "steps": inner}}
        group = {"steps": steps(launch, "while [ ! -e ~/at ]; do :; done")}

        code, _ = node.run(workflow(group), SLURM_STEP_ID="7")

        assert (code, (node.home / "scancel").read_text()) == (0, "--signal=15 42.7\n")

    def test_a_step_that_waits_for_its_resources_is_retried(self, node, monkeypatch):
        """The real srun waits before it fails. Here a wait of 0 s has the same effect."""
        monkeypatch.setitem(RETRY_S, "wait", 0)
        start_slurmctld(node, ago=3600)
        refuse(node, 2)

        assert node.run(workflow("echo ran"))[0] == 0

    def test_a_retried_step_reads_its_tunnel_keys(self, node):
        """srun reads its input only for the tasks of a created step."""
        networks.install(node)
        start_slurmctld(node, ago=1)
        refuse(node, 1)

        code, output = node.run(workflow(networks.step("echo ran", {"wireguard": networks.TUNNEL})))

        assert (code, output.count("ran\n")) == (0, 1)
        assert networks.KEY in networks.tunnels(node)[0][1]


class TestNotRetried:
    @pytest.mark.parametrize(("time", "ago"), [("patience", 3600), ("most", 1)])
    def test_a_step_is_not_retried_after_the_time_limit(self, node, monkeypatch, time, ago):
        monkeypatch.setitem(RETRY_S, "wait", 0)
        monkeypatch.setitem(RETRY_S, time, 0)
        start_slurmctld(node, ago=ago)
        refuse(node, 1)

        assert node.run(workflow("echo never"))[0] == 1
        assert tries(node) == 1

    def test_a_created_step_is_not_retried(self, node):
        """srun can fail after it, if some tasks run and others could not be started."""
        start_slurmctld(node, ago=1)
        refuse(node, 1, first=PROLOG)

        assert node.run(workflow("echo never"))[0] == 1
        assert tries(node) == 1

    def test_a_command_with_the_exit_code_of_srun_is_not_retried(self, node):
        start_slurmctld(node, ago=1)
        refuse(node, 0)

        assert node.run(workflow("echo ran; exit 1")) == (1, "ran\n")

    def test_an_exit_code_that_srun_does_not_use_is_not_retried(self, node):
        start_slurmctld(node, ago=1)
        refuse(node, 1, code=137)

        assert node.run(workflow("echo never"))[0] == 137
        assert tries(node) == 1

    def test_a_step_that_slurm_rejects_is_not_retried(self, node):
        start_slurmctld(node, ago=3600)
        refuse(node, 1)

        code, output = node.run(workflow("echo never"))

        assert (code, tries(node)) == (1, 1)
        assert "gridstead" not in output

    def test_a_step_whose_prolog_could_not_be_written_is_not_retried(self, node):
        """The customer's storage is full, which may be detected only when the file is closed."""
        node.add("install", '#!/bin/sh\n/usr/bin/install "$@"\nexit 1\n')
        start_slurmctld(node, ago=1)
        refuse(node, 1)

        assert node.run(workflow("echo never"))[0] == 1
        assert tries(node) == 1

    def test_a_step_with_too_many_words_for_a_prolog_is_not_retried(self, node):
        """srun 24.11 has room for 1,024 words. This srun waits for the resources at once."""
        node.add("apptainer", "#!/bin/bash\necho $#\n")
        words = {
            "command": "word " * 1000,
            "shell": "ENTRYPOINT",
            "container": {"image": "/some.sqsh", "apptainer": True},
        }

        code, output = node.run(workflow("touch some.sqsh", {"run": words}))

        assert (code, node.calls[1][0]) == (0, "--immediate=60"), output


class TestSignals:
    def test_a_cancelled_step_runs_its_trap(self, node):
        command = (
            "trap 'sleep 0.3; echo last; exit 9' TERM; echo >~/at; while :; do sleep 0.05; done"
        )
        running = node.start(workflow(command))
        wait_for((node.home / "at").exists)

        os.killpg(running.pid, signal.SIGTERM)
        output, _ = running.communicate(timeout=20)

        assert (running.returncode, output.splitlines()[-1]) == (9, b"last")

    @pytest.mark.parametrize("place", ["asked", "paused"])
    def test_a_signal_during_a_retry_ends_the_step_at_once(self, node, place):
        """Slurm signals every process of the job."""
        start_slurmctld(node, ago=1)
        node.add("sleep", PAUSE)
        refuse(node, 1, first="/bin/sleep 30" if place == "asked" else "")
        running = node.start(workflow("echo never"))
        wait_for(lambda: (node.home / place).exists() and (node.home / place).stat().st_size)

        os.killpg(running.pid, signal.SIGTERM)
        output, _ = running.communicate(timeout=20)

        assert running.returncode in (1, 143)
        assert (b"never" in output, tries(node), node.left) == (False, 1, [])

    def test_the_end_of_a_launch_ends_a_retried_step(self, node):
        """The step has no step id yet, so the signal is sent to the processes."""
        start_slurmctld(node, ago=1)
        node.add("sleep", PAUSE)
        refuse(node, 1)
        launch = {"launch": {"steps": steps("echo never")}}
        free = {"name": "free", "run": {"command": "while [ ! -e ~/paused ]; do :; done"}}

        code, output = node.run(
            workflow({"steps": steps(launch, free)}, {"name": "free", "run": {"command": "true"}})
        )

        assert (code, "never" in output, tries(node), node.left) == (0, False, 3, [])
