# SPDX-License-Identifier: Apache-2.0
"""Labs of two small hosts."""

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
    """A lab as a person at the command line has it."""

    names: names.Names
    topology: Path

    def command(self, *words):
        return [sys.executable, str(LAB), words[0], "--lab", self.names.lab, *words[1:]]

    def run(self, *words, check=True):
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False, env=_clean()
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def up(self):
        return self.run("up", "--topology", str(self.topology))

    def start_up(self):
        """Start `up` and return at once."""
        words = self.command("up", "--topology", str(self.topology))
        return subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_clean()
        )

    def on(self, host, line):
        return self.run("exec", host, "--", line, check=False)


@pytest.fixture
def make_lab(tmp_path):
    """Return a function that names a lab; each is taken down at the end."""
    made = []

    def make(name):
        topology = tmp_path / f"{name}.json"
        topology.write_text(json.dumps({"hosts": HOSTS}))
        made.append(Lab(names.names(CHECKOUT, name), topology))
        return made[-1]

    yield make
    for lab in made:
        lab.run("down")


@pytest.fixture
def lab(make_lab):
    return make_lab(f"test{os.getpid()}")


def _clean():
    return {
        name: value for name, value in os.environ.items() if not name.startswith("GRIDSTEAD_LAB")
    }
