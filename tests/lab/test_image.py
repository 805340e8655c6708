# SPDX-License-Identifier: Apache-2.0
"""Tests that an image layer is complete or absent.

The tests need root, the machine's package mirror and the base layer.
"""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.lab.leftovers import find_remains

from gridstead_lab import image, inputs

BUILD = """
import dataclasses, pathlib, sys
from gridstead_lab import image, inputs, names
lab_names = names.names(pathlib.Path(sys.argv[1]), sys.argv[2])
machine_inputs = inputs.read_inputs(lab_names.checkout)
image_inputs = dataclasses.replace(machine_inputs, packages=("jq", sys.argv[3]), locks=())
image.ensure(image_inputs, lab_names, print)
"""

pytestmark = pytest.mark.skipif("CI" not in os.environ and os.geteuid() != 0, reason="needs root")


def _start_build(lab):
    checkout = lab.names.checkout
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(checkout), lab.names.lab, "acl"],
        env=os.environ
        | {"PYTHONPATH": f"{checkout}/molecule/lab", "GRIDSTEAD_LAB": lab.names.prefix},
    )


def test_down_removes_a_killed_build_so_that_the_next_build_completes(lab):
    machine_inputs = inputs.read_inputs(lab.names.checkout)
    image_inputs = dataclasses.replace(machine_inputs, packages=("jq", "acl"), locks=())
    folder = image.layers(image_inputs)[1].folder
    build_folder = lab.names.build_folder(folder.name)
    assert not folder.exists()

    build = _start_build(lab)
    while not (build_folder / "upper/var/lib/dpkg").exists():
        assert build.poll() is None
        time.sleep(0.05)
    build.send_signal(signal.SIGKILL)
    build.wait()
    lab.run("down")

    assert not folder.exists()
    assert find_remains(lab.names) == []
    for process in Path("/proc").glob("[0-9]*"):
        assert not _uses_folder(process, build_folder)

    assert _start_build(lab).wait() == 0

    assert (folder / "usr/bin/jq").exists()
    assert find_remains(lab.names) == []
    subprocess.run(["rm", "-r", str(folder), f"{folder}.log"], check=True)


def _uses_folder(process, folder):
    """Return whether a process has a folder in its command line or its mounts."""
    try:
        text = (process / "cmdline").read_bytes() + (process / "mountinfo").read_bytes()
    except OSError:
        return False
    return str(folder).encode() in text
