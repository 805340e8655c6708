# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks of a lab, and reads their reports."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Lab, wait_until

UNIT = "gridstead-benchmarks.service"
REPORTS = "/var/lib/gridstead/benchmarks"
RUN_TIMEOUT_S = 300
START_TIMEOUT_S = 60


def start(lab: Lab) -> None:
    """Start a run of the benchmarks, unless one runs, and wait until it has a Slurm job."""
    lab.run(lab.controller, "systemctl", "start", "--no-block", UNIT)
    running_jobs = "squeue --noheader --user=gridstead-benchmarks --states=RUNNING --format=%i"
    wait_until(lambda: lab.sh(lab.controller, running_jobs).strip(), timeout=START_TIMEOUT_S)


def stop(lab: Lab) -> None:
    """Stop the run of the benchmarks, if there is one."""
    lab.run(lab.controller, "systemctl", "stop", UNIT)


def has_ended(lab: Lab) -> bool:
    """Return whether no run of the benchmarks is active."""
    state = lab.run(lab.controller, "systemctl", "is-active", UNIT, check=False).stdout.strip()
    return state in {"inactive", "failed"}


def measure(lab: Lab) -> dict[str, Any]:
    """Run the benchmarks to their end and return their report."""
    number = len(report_names(lab))
    start(lab)
    wait_until(lambda: has_ended(lab), timeout=RUN_TIMEOUT_S)
    names = report_names(lab)
    if len(names) <= number:
        raise RuntimeError(f"the benchmarks wrote no report; see journalctl --unit={UNIT}")
    return json.loads(lab.run(lab.controller, "cat", f"{REPORTS}/{names[-1]}").stdout)


def report_names(lab: Lab) -> list[str]:
    """Return the names of the reports, the oldest first."""
    names = lab.sh(lab.controller, f"ls {REPORTS}").split()
    return sorted(name for name in names if Path(name).stem.isdigit())


@contextlib.contextmanager
def forget_new_reports(lab: Lab) -> Iterator[None]:
    """Remove the reports that the block adds, so that they are not compared with later runs."""
    old_names = set(report_names(lab))
    try:
        yield
    finally:
        for name in report_names(lab):
            if name not in old_names:
                lab.run(lab.controller, "rm", f"{REPORTS}/{name}")
