#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slow down a node of the lab, and check that the benchmarks name it with the right metric.

After three quiet runs, each repetition slows down compute2 in one way (a CPU quota, a limit of its
disk, or a limit of its network), runs the benchmarks twice and reads which nodes the last report
names. The reports of a repetition are removed. At the end, quiet runs must name no node.

The exit code is 1 if a repetition does not name compute2 with a metric of the right kind, or if a
quiet run names a node. A lab must run, and this machine should have no other load.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tools"), str(CHECKOUT / "molecule/lab")]

import lab_users  # noqa: E402
from tests.bench import lab_benchmarks  # noqa: E402
from tests.bench.lab_soak_grid import open_lab  # noqa: E402
from tests.e2e.conftest import Lab  # noqa: E402

from gridstead_lab.names import Names  # noqa: E402

NODE = "compute2"
QUIET_RUNS_BEFORE = 3
QUIET_RUNS_AFTER = 5
REPETITIONS = 10
CPU_PERIOD_US = 100_000
CPU_QUOTA_US = 20_000  # a fifth of a CPU
DISK_BYTES_PER_S = 4 << 20
NETWORK_RATE = "200mbit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A way to slow down a node, and the kind of the metrics that it changes."""

    name: str
    kind: str
    slow: Callable[[Lab, Names], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def cpu_quota(_: Lab, names: Names) -> Iterator[None]:
    """Give the node a quota of CPU time."""
    folder = Path("/sys/fs/cgroup/cpu") / names.prefix / NODE
    (folder / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
    (folder / "cpu.cfs_quota_us").write_text(str(CPU_QUOTA_US))
    try:
        yield
    finally:
        (folder / "cpu.cfs_quota_us").write_text("-1")


@contextlib.contextmanager
def disk_limit(_: Lab, names: Names) -> Iterator[None]:
    """Limit reading and writing of the node on the disk of this machine."""
    folder = Path("/sys/fs/cgroup/blkio") / f"{names.prefix}-slow-node"
    folder.mkdir()
    device = subprocess.run(
        ["findmnt", "--noheadings", "--output=MAJ:MIN", "--target=/"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    node_folder = Path("/sys/fs/cgroup/cpu") / names.prefix / NODE
    try:
        for access in ("read", "write"):
            limit = f"{device} {DISK_BYTES_PER_S}"
            (folder / f"blkio.throttle.{access}_bps_device").write_text(limit)
        _move(node_folder, folder)
        yield
    finally:
        _move(folder, folder.parent)
        folder.rmdir()


def _move(source: Path, target: Path) -> None:
    """Move the processes of a cgroup and of its children to another cgroup."""
    for procs_file in source.rglob("cgroup.procs"):
        for pid in procs_file.read_text().split():
            with contextlib.suppress(ProcessLookupError):  # the process has ended
                (target / "cgroup.procs").write_text(pid)


@contextlib.contextmanager
def network_limit(lab: Lab, names: Names) -> Iterator[None]:
    """Limit what the node receives."""
    device = names.veth(int(lab.address(NODE).rpartition(".")[2]))
    limit = ["rate", NETWORK_RATE, "burst", "64kb", "latency", "50ms"]
    subprocess.run(["tc", "qdisc", "add", "dev", device, "root", "tbf", *limit], check=True)
    try:
        yield
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", device, "root"], check=True)


FAULTS = (
    Fault(name="CPU quota", kind="compute", slow=cpu_quota),
    Fault(name="limit of the network", kind="network", slow=network_limit),
    Fault(name="limit of the disk", kind="storage", slow=disk_limit),
)


def main() -> int:
    """Run the campaign, print what was named, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="default %(default)s")
    parser.add_argument(
        "--quiet-runs", type=int, default=QUIET_RUNS_AFTER, help="at the end, default %(default)s"
    )
    options = parser.parse_args()
    lab = open_lab()
    names = Names(checkout=CHECKOUT, lab=lab_users.lab_grid().folder.name)
    for number in range(QUIET_RUNS_BEFORE):
        print(f"quiet run {number + 1} of {QUIET_RUNS_BEFORE}", file=sys.stderr, flush=True)
        lab_benchmarks.measure(lab)
    right = 0
    for number, fault in zip(range(options.repetitions), itertools.cycle(FAULTS), strict=False):
        outliers = _outliers_with(fault, lab, names)
        right += _is_named(fault, outliers)
        print(f"{number + 1} {fault.name}: {_text(outliers)}", flush=True)
    false_names = 0
    for number in range(options.quiet_runs):
        outliers = lab_benchmarks.measure(lab)["outliers"]
        false_names += bool(outliers)
        print(f"quiet run {number + 1}: {_text(outliers)}", flush=True)
    print(f"named: {right} of {options.repetitions}; quiet runs that name a node: {false_names}")
    return 0 if right == options.repetitions and not false_names else 1


def _outliers_with(fault: Fault, lab: Lab, names: Names) -> list[dict[str, Any]]:
    """Return the outliers in the second of two runs with a fault."""
    with lab_benchmarks.forget_new_reports(lab), fault.slow(lab, names):
        lab_benchmarks.measure(lab)
        report = lab_benchmarks.measure(lab)
    return report["outliers"]


def _is_named(fault: Fault, outliers: list[dict[str, Any]]) -> bool:
    """Return whether the node is named with a metric of the fault's kind."""
    return any(NODE in outlier["node"] and outlier["kind"] == fault.kind for outlier in outliers)


def _text(outliers: list[dict[str, Any]]) -> str:
    """Return the outliers as one line."""
    return ", ".join(f"{outlier['node']} {outlier['metric']}" for outlier in outliers) or "none"


if __name__ == "__main__":
    sys.exit(main())
