#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the run time of commands that do not use the chain: `--help`, `workflow validate`, etc.

Each command runs several times, after a run that compiles its modules. The table shows the median
and the minimum of the wall time, the minimum of the CPU time, and the ratio of this minimum to the
CPU time of ``python -c pass``. On an idle core the wall time equals the CPU time. The exit code is
1 if the CPU time of a command exceeds the limit.
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
RUN_GRIDSTEAD = "import sys; from gridstead.cli.main import main; main()"
COMMANDS = (
    "--help",
    "submit --help",
    "job list --help",
    "workflow validate examples/hello-world.yaml",
    "check-config --help",
    "supervisor run --help",
    "cvmfs --help",
)
MAX_CPU_S = 0.35
ROUNDS = 15


@dataclass(frozen=True)
class Times:
    """The times of a program, in seconds."""

    name: str
    median_s: float
    min_s: float
    min_cpu_s: float


def measure(name: str, argv: list[str], rounds: int, environment: dict[str, str]) -> Times:
    """Run a program ``rounds`` times and return its times."""
    wall_times_s, cpu_times_s = [], []
    for number in range(rounds + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start_s = time.perf_counter()
        subprocess.run(argv, check=True, cwd=CHECKOUT, env=environment, stdout=subprocess.DEVNULL)
        wall_s = time.perf_counter() - start_s
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if number == 0:  # the first run compiles the modules
            continue
        user_s = after.ru_utime - before.ru_utime
        system_s = after.ru_stime - before.ru_stime
        wall_times_s.append(wall_s)
        cpu_times_s.append(user_s + system_s)
    return Times(name, statistics.median(wall_times_s), min(wall_times_s), min(cpu_times_s))


def main() -> int:
    """Measure every command, print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="Runs of each command.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gs-start-") as bytecode_folder:
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        paths = [str(CHECKOUT / name) for name in ("control", "cvmfs")]
        paths += os.environ.get("PYTHONPATH", "").split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        environment["PYTHONPYCACHEPREFIX"] = bytecode_folder
        python = [sys.executable, "-c"]
        base = measure("python -c pass", [*python, "pass"], options.rounds, environment)
        results = []
        for command in COMMANDS:
            argv = [*python, RUN_GRIDSTEAD, *command.split()]
            results.append(measure(command, argv, options.rounds, environment))
    if options.json:
        print(json.dumps([asdict(result) for result in (base, *results)], indent=2))
    else:
        print(f"{'command':45} {'median s':>8} {'min s':>8} {'cpu s':>8} {'ratio':>6}")
        for result in (base, *results):
            ratio = result.min_cpu_s / base.min_cpu_s
            times = f"{result.median_s:8.3f} {result.min_s:8.3f} {result.min_cpu_s:8.3f}"
            print(f"{result.name:45} {times} {ratio:6.1f}")
    slow = [result.name for result in results if result.min_cpu_s > MAX_CPU_S]
    if slow:
        print(f"more than {MAX_CPU_S} s: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
