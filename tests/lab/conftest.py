# SPDX-License-Identifier: Apache-2.0
"""Fixtures that create labs with two small hosts."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gridstead_lab import names

CHECKOUT = Path(__file__).resolve().parents[2]
LAB = CHECKOUT / "molecule/lab/lab.py"
HOSTS = {
    "left": {"groups": ["one"], "memory_mb": 256, "cores": 0.5, "job_cgroups": True},
    "right": {"groups": ["two"], "memory_mb": 256, "cores": 1},
}


@dataclass(frozen=True)
class Lab:
    """A lab that the tests control with the commands of the lab tool."""

    names: names.Names
    topology: Path

    def command(self, name, *arguments):
        """Return the command line of a command of the lab tool."""
        return [sys.executable, str(LAB), name, "--lab", self.names.lab, *arguments]

    def run(self, *arguments, check=True):
        """Run a command of the lab tool. Fail if the command fails and ``check`` is true."""
        result = subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            check=False,
            env=environment_without_lab(),
        )
        if check:
            assert result.returncode == 0, result.stdout + result.stderr
        return result

    def up(self):
        return self.run("up", "--topology", str(self.topology))

    def start_up_in_background(self):
        """Start `up` in the background and return its process."""
        argv = self.command("up", "--topology", str(self.topology))
        return subprocess.Popen(
            argv,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment_without_lab(),
        )

    def run_on_host(self, host, line):
        return self.run("exec", host, "--", line, check=False)


@pytest.fixture
def make_lab(tmp_path):
    """Yield a function that returns a lab with a given name. After the test, remove the labs."""
    labs = []

    def make(name):
        topology = tmp_path / f"{name}.json"
        topology.write_text(json.dumps({"hosts": HOSTS}))
        labs.append(Lab(names.names(CHECKOUT, name), topology))
        return labs[-1]

    yield make
    for lab in labs:
        lab.run("down")


@pytest.fixture
def lab(make_lab):
    return make_lab(f"test{os.getpid()}")


def environment_without_lab():
    """Return the environment without the variables that select a lab."""
    environment = dict(os.environ)
    for name in os.environ:
        if name.startswith("GRIDSTEAD_LAB"):
            del environment[name]
    return environment
