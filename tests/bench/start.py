#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the run time of commands.

Most of the commands do not use the chain: `--help`, `workflow validate`, etc. `job list` uses it:
its node refuses the first request, so that its time is the time until this request.

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
sys.path.insert(0, str(CHECKOUT))

from tests.fakes.rpc_endpoint import RpcEndpoint  # noqa: E402

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
CHAIN_COMMAND = "job list"
MAX_CHAIN_CPU_S = 1.5
TRANSIENT_CODE = 75  # the exit code of a command whose node does not answer
ROUNDS = 15
SETTINGS = """
job_definitions_url = "https://localhost"
logger = {{endpoint = "localhost:1", ca_file = "{keystore}"}}
chain = {{rpc_url = "{url}", chain_id = 7, contract = "{address}", confirmations = 1}}
wallet = {{keystore_file = "{keystore}", password_file = "{password}"}}
"""


@dataclass(frozen=True)
class Times:
    """The times of a program, in seconds."""

    name: str
    median_s: float
    min_s: float
    min_cpu_s: float


def measure(
    name: str, argv: list[str], rounds: int, environment: dict[str, str], *, code: int = 0
) -> Times:
    """Run a program ``rounds`` times and return its times. ``code`` is its exit code."""
    wall_times_s, cpu_times_s = [], []
    for number in range(rounds + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start_s = time.perf_counter()
        result = subprocess.run(
            argv, check=False, cwd=CHECKOUT, env=environment, capture_output=True, text=True
        )
        assert result.returncode == code, result.stderr
        wall_s = time.perf_counter() - start_s
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if number == 0:  # the first run compiles the modules
            continue
        user_s = after.ru_utime - before.ru_utime
        system_s = after.ru_stime - before.ru_stime
        wall_times_s.append(wall_s)
        cpu_times_s.append(user_s + system_s)
    return Times(name, statistics.median(wall_times_s), min(wall_times_s), min(cpu_times_s))


def measure_first_request(
    python: list[str], rounds: int, environment: dict[str, str], folder: Path
) -> Times:
    """Return the times of a command until its first request to the chain."""
    keystore, password = folder / "wallet.json", folder / "password"
    keystore.write_text(json.dumps({"address": "ab" * 20}))
    password.write_text("")
    endpoint = RpcEndpoint()
    endpoint.status = 503
    settings = folder / "client.toml"
    files = {"url": endpoint.url, "keystore": keystore, "password": password}
    settings.write_text(SETTINGS.format(address="0x" + "ab" * 20, **files))
    argv = [*python, RUN_GRIDSTEAD, *CHAIN_COMMAND.split(), "--config", str(settings)]
    try:
        times = measure(CHAIN_COMMAND, argv, rounds, environment, code=TRANSIENT_CODE)
    finally:
        endpoint.close()
    assert len(endpoint.batches) == rounds + 1
    return times


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
        folder = Path(bytecode_folder)
        results.append(measure_first_request(python, options.rounds, environment, folder))
    if options.json:
        print(json.dumps([asdict(result) for result in (base, *results)], indent=2))
    else:
        print(f"{'command':45} {'median s':>8} {'min s':>8} {'cpu s':>8} {'ratio':>6}")
        for result in (base, *results):
            ratio = result.min_cpu_s / base.min_cpu_s
            times = f"{result.median_s:8.3f} {result.min_s:8.3f} {result.min_cpu_s:8.3f}"
            print(f"{result.name:45} {times} {ratio:6.1f}")
    slow = []
    for result in results:
        limit_s = MAX_CHAIN_CPU_S if result.name == CHAIN_COMMAND else MAX_CPU_S
        if result.min_cpu_s > limit_s:
            slow.append(f"{result.name} ({limit_s} s)")
    if slow:
        print(f"more than the limit: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
