# SPDX-License-Identifier: Apache-2.0
"""Steps that Slurm did not make, as the rendered script asks for them again: one that was made
never runs twice.
"""

from __future__ import annotations

import os
import signal

import pytest
from tests.unit.workflow import networks
from tests.unit.workflow.node import SRUN, steps, wait_for, workflow

from gridstead.workflow.render.steps import ASKING_S

# Refuses as a real one does, as often as a file says, all but a step named free.
REFUSING = r"""#!/bin/bash
echo >>~/asked
{first}
if [[ -s ~/refusals && $* != *--job-name=free* ]]; then
  sed -i 1d ~/refusals
  echo "srun: error: Unable to confirm allocation" >&2
  exit {code}
fi
exec making-srun "$@"
"""
PROLOG = '"${1#*=}"'
PAUSE = "#!/bin/bash\necho >~/paused\nexec /bin/sleep 30\n"


def refuse(node, times, *, code=1, first=""):
    node.add("making-srun", SRUN)
    node.add("srun", REFUSING.format(code=code, first=first))
    (node.home / "refusals").write_text("no\n" * times)


def begin(node, ago):
    """Play a slurmctld that began some seconds ago."""
    node.add(
        "scontrol", f'#!/bin/bash\necho "BOOT_TIME               = $((EPOCHSECONDS - {ago}))"\n'
    )


def asked(node):
    return len((node.home / "asked").read_text().splitlines())


@pytest.fixture
def node(node):
    node.add(
        "sleep", '#!/bin/bash\n[[ $1 == 2 ]] || exec /bin/sleep "$@"\n'
    )  # no pause between two tries
    return node


class TestOnceMore:
    def test_step_that_was_not_made_while_slurmctld_began_is_asked_for_again(self, node):
        begin(node, ago=1)
        refuse(node, 2)

        code, output = node.run(workflow("echo ran; exit 3"))

        assert (code, output.count("ran\n"), asked(node)) == (3, 1, 3)
        assert output.count("gridstead: Slurm did not make this step; asking again\n") == 1
        assert node.left == []

    def test_slurmctld_that_is_away_is_waited_for(self, node):
        node.add("scontrol", "#!/bin/sh\nexit 1\n")
        refuse(node, 1)

        assert node.run(workflow("echo ran"))[0] == 0

    def test_step_in_a_container_is_asked_for_again(self, node):
        node.add("apptainer", '#!/bin/bash\nexec "${@: -3}"\n')
        begin(node, ago=1)
        refuse(node, 1)
        step = {
            "run": {"command": "echo ran", "container": {"image": "/some.sqsh", "apptainer": True}}
        }

        code, output = node.run(workflow("touch some.sqsh", step))

        assert (code, output.count("ran\n")) == (0, 1)

    def test_launched_step_is_asked_for_again_and_known_by_its_name(self, node):
        node.add("scancel", '#!/bin/bash\necho "$@" >>"$HOME/scancel"\ntouch "$HOME/told"\n')
        begin(node, ago=1)
        refuse(node, 1)
        inner = steps("touch ~/at; while [ ! -e ~/told ]; do :; done")
        launch = {"launch": {"signalOnParentStepExit": 15, "steps": inner}}
        group = {"steps": steps(launch, "while [ ! -e ~/at ]; do :; done")}

        code, _ = node.run(workflow(group), SLURM_STEP_ID="7")

        assert (code, (node.home / "scancel").read_text()) == (0, "--signal=15 42.7\n")

    def test_step_that_waits_for_what_it_needs_is_asked_for_again(self, node, monkeypatch):
        """The real srun waits before it refuses; this one seems to, as no time counts as that."""
        monkeypatch.setitem(ASKING_S, "wait", 0)
        begin(node, ago=3600)
        refuse(node, 2)

        assert node.run(workflow("echo ran"))[0] == 0

    def test_keys_of_a_network_are_there_when_it_is_asked_for_again(self, node):
        """srun reads them only for the tasks of a step that was made."""
        networks.install(node)
        begin(node, ago=1)
        refuse(node, 1)

        code, output = node.run(workflow(networks.step("echo ran", {"wireguard": networks.TUNNEL})))

        assert (code, output.count("ran\n")) == (0, 1)
        assert networks.KEY in networks.tunnels(node)[0][1]


class TestNotAgain:
    @pytest.mark.parametrize(("time", "ago"), [("patience", 3600), ("most", 1)])
    def test_step_is_not_asked_for_longer_than_it_may(self, node, monkeypatch, time, ago):
        monkeypatch.setitem(ASKING_S, "wait", 0)
        monkeypatch.setitem(ASKING_S, time, 0)
        begin(node, ago=ago)
        refuse(node, 1)

        assert node.run(workflow("echo never"))[0] == 1
        assert asked(node) == 1

    def test_step_that_was_made_is_not(self, node):
        """srun can fail after it, when some tasks run and others could not be started."""
        begin(node, ago=1)
        refuse(node, 1, first=PROLOG)

        assert node.run(workflow("echo never"))[0] == 1
        assert asked(node) == 1

    def test_command_that_ends_as_srun_does_is_not(self, node):
        begin(node, ago=1)
        refuse(node, 0)

        assert node.run(workflow("echo ran; exit 1")) == (1, "ran\n")

    def test_code_that_is_not_of_a_failed_srun_is_final(self, node):
        begin(node, ago=1)
        refuse(node, 1, code=137)

        assert node.run(workflow("echo never"))[0] == 137
        assert asked(node) == 1

    def test_step_that_slurm_refuses_for_itself_is_not(self, node):
        begin(node, ago=3600)
        refuse(node, 1)

        code, output = node.run(workflow("echo never"))

        assert (code, asked(node)) == (1, 1)
        assert "gridstead" not in output

    def test_step_whose_making_could_not_be_told_is_not(self, node):
        """The customer's storage is full, which may show only when the file is closed."""
        node.add("install", '#!/bin/sh\n/usr/bin/install "$@"\nexit 1\n')
        begin(node, ago=1)
        refuse(node, 1)

        assert node.run(workflow("echo never"))[0] == 1
        assert asked(node) == 1

    def test_step_with_too_many_words_for_a_prolog_is_not_and_waits_in_one_go(self, node):
        """srun 24.11 makes room for 1,024 of them, whatever it is given."""
        node.add("apptainer", "#!/bin/bash\necho $#\n")
        words = {
            "command": "word " * 1000,
            "shell": "ENTRYPOINT",
            "container": {"image": "/some.sqsh", "apptainer": True},
        }

        code, output = node.run(workflow("touch some.sqsh", {"run": words}))

        assert (code, node.calls[1][0]) == (0, "--immediate=60"), output


class TestSignals:
    def test_cancelled_step_ends_in_its_own_way(self, node):
        command = (
            "trap 'sleep 0.3; echo last; exit 9' TERM; echo >~/at; while :; do sleep 0.05; done"
        )
        running = node.start(workflow(command))
        wait_for((node.home / "at").exists)

        os.killpg(running.pid, signal.SIGTERM)
        output, _ = running.communicate(timeout=20)

        assert (running.returncode, output.splitlines()[-1]) == (9, b"last")

    @pytest.mark.parametrize("place", ["asked", "paused"])
    def test_cancel_while_it_is_asked_for_ends_it_at_once(self, node, place):
        """Slurm signals every process of the job."""
        begin(node, ago=1)
        node.add("sleep", PAUSE)
        refuse(node, 1, first="/bin/sleep 30" if place == "asked" else "")
        running = node.start(workflow("echo never"))
        wait_for(lambda: (node.home / place).exists() and (node.home / place).stat().st_size)

        os.killpg(running.pid, signal.SIGTERM)
        output, _ = running.communicate(timeout=20)

        assert running.returncode in (1, 143)
        assert (b"never" in output, asked(node), node.left) == (False, 1, [])

    def test_end_of_a_launch_ends_what_is_asked_for(self, node):
        """Its step has no name yet, so the signal goes from process to process."""
        begin(node, ago=1)
        node.add("sleep", PAUSE)
        refuse(node, 1)
        launch = {"launch": {"steps": steps("echo never")}}
        free = {"name": "free", "run": {"command": "while [ ! -e ~/paused ]; do :; done"}}

        code, output = node.run(
            workflow({"steps": steps(launch, free)}, {"name": "free", "run": {"command": "true"}})
        )

        assert (code, "never" in output, asked(node), node.left) == (0, False, 3, [])
