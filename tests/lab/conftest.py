# SPDX-License-Identifier: Apache-2.0
"""Labs with two small hosts."""

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
    """A lab, controlled by the commands of the lab tool."""

    names: names.Names
    topology: Path

    def command(self, name, *arguments):
        return [sys.executable, str(LAB), name, "--lab", self.names.lab, *arguments]

    def run(self, *arguments, check=True):
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, env=_clean()
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def up(self):
        return self.run("up", "--topology", str(self.topology))

    def start_up(self):
        """Start `up` in the background."""
        argv = self.command("up", "--topology", str(self.topology))
        return subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_clean()
        )

    def on(self, host, line):
        return self.run("exec", host, "--", line, check=False)


@pytest.fixture
def make_lab(tmp_path):
    """A function that returns a lab with a name. Every lab is removed at the end."""
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


def _clean():
    environment = dict(os.environ)
    for name in os.environ:
        if name.startswith("GRIDSTEAD_LAB"):
            del environment[name]
    return environment
