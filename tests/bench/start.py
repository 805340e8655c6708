#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how long commands take that use no chain: `--help`, `workflow validate`, and others.

Each command runs several times, after a run that compiles its modules. The table has the median and
the least wall time, the least processor time, and the ratio of the latter to that of
``python -c pass``. On a quiet core the wall time is the processor time. The exit code is 1 if the
processor time of a command exceeds the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
MAIN = "import sys; from gridstead.cli.main import main; main()"
COMMANDS = (
    "--help",
    "submit --help",
    "job list --help",
    "workflow validate examples/hello-world.yaml",
    "check-config --help",
    "supervisor run --help",
    "cvmfs --help",
)
LIMIT_S = 0.35
ROUNDS = 15


@dataclass(frozen=True)
class Times:
    """The times of a program, seconds."""

    name: str
    median_s: float
    least_s: float
    processor_s: float


def measure(name: str, argv: list[str], rounds: int, environment: dict[str, str]) -> Times:
    """Return the times of a program."""
    walls, processors = [], []
    for number in range(rounds + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        subprocess.run(argv, check=True, cwd=CHECKOUT, env=environment, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if number:  # the first run compiles
            walls.append(wall)
            user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
            processors.append(user + system)
    return Times(name, statistics.median(walls), min(walls), min(processors))


def main() -> int:
    """Measure every command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="Runs of each command.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gs-start-") as compiled:
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        paths = [str(CHECKOUT / name) for name in ("control", "cvmfs")]
        paths += os.environ.get("PYTHONPATH", "").split(os.pathsep)
        environment |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONPYCACHEPREFIX": compiled}
        python = [sys.executable, "-c"]
        base = measure("python -c pass", [*python, "pass"], options.rounds, environment)
        results = [
            measure(command, [*python, MAIN, *command.split()], options.rounds, environment)
            for command in COMMANDS
        ]
    if options.json:
        print(json.dumps([asdict(result) for result in (base, *results)], indent=2))
    else:
        print(f"{'command':45} {'median s':>8} {'least s':>8} {'cpu s':>8} {'ratio':>6}")
        for result in (base, *results):
            ratio = result.processor_s / base.processor_s
            times = (result.median_s, result.least_s, result.processor_s)
            print(f"{result.name:45}", *(f"{seconds:8.3f}" for seconds in times), f"{ratio:6.1f}")
    slow = [result.name for result in results if result.processor_s > LIMIT_S]
    if slow:
        print(f"more than {LIMIT_S} s: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
