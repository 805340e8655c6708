# SPDX-License-Identifier: Apache-2.0
"""An image layer is complete or not there. Needs root, the machine's mirror and the base layer."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.lab.leftovers import traces

from gridstead_lab import image, inputs

BUILD = """
import dataclasses, pathlib, sys
from gridstead_lab import image, inputs, names
mine = names.names(pathlib.Path(sys.argv[1]), sys.argv[2])
wanted = dataclasses.replace(inputs.look(mine.checkout), packages=("jq", sys.argv[3]), lock="")
image.ensure(wanted, mine, print)
"""

pytestmark = pytest.mark.skipif("CI" not in os.environ and os.geteuid() != 0, reason="needs root")


def _start(lab):
    checkout = lab.names.checkout
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(checkout), lab.names.lab, "acl"],
        env=os.environ
        | {"PYTHONPATH": f"{checkout}/molecule/lab", "GRIDSTEAD_LAB": lab.names.prefix},
    )


def test_a_killed_build_is_not_taken_for_complete_and_leaves_nothing_after_down(lab):
    wanted = dataclasses.replace(inputs.look(lab.names.checkout), packages=("jq", "acl"), lock="")
    folder = image.layers(wanted)[1].folder
    place = lab.names.build(folder.name)
    assert not folder.exists()

    build = _start(lab)
    while not (place / "upper/var/lib/dpkg").exists():
        assert build.poll() is None
        time.sleep(0.05)
    build.send_signal(signal.SIGKILL)
    build.wait()
    lab.run("down")

    assert not folder.exists()
    assert traces(lab.names) == []
    assert not [pid for pid in Path("/proc").glob("[0-9]*") if _works_in(pid, place)]

    assert _start(lab).wait() == 0

    assert (folder / "usr/bin/jq").exists()
    assert traces(lab.names) == []
    subprocess.run(["rm", "-r", str(folder), f"{folder}.log"], check=True)


def _works_in(pid, place):
    try:
        return (
            str(place).encode() in (pid / "cmdline").read_bytes() + (pid / "mountinfo").read_bytes()
        )
    except OSError:
        return False
