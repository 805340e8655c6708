#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare jobs of a customer that start during benchmarks with jobs that start on an idle cluster.

Each job uses a CPU of both nodes and computes for some seconds, as the user of a wallet in Slurm.
A benchmark needs whole nodes, so it cannot run at the same time as the job. A control job is
submitted when no benchmark runs, the next job while one runs, and so on.

The exit code is 1 if a job during the benchmarks starts more than 10 s later, or runs more than 5 %
longer, than the slowest control job. A lab must run, and this machine should have no other load.
"""

from __future__ import annotations

import argparse
import contextlib
import secrets
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tools")]

from tests.bench import lab_benchmarks  # noqa: E402
from tests.bench.lab_soak_grid import open_lab  # noqa: E402
from tests.e2e.conftest import Lab  # noqa: E402
from tests.e2e.slurm_jobs import SlurmJobs, operator_access  # noqa: E402

JOBS = 50
NODES = "compute1,compute2"
# Computes for some seconds of CPU time on one of the nodes.
COMMAND = "python3 -c 'print(sum(number * number % 7 for number in range(40_000_000)))'"
MAX_LATER_S = 10
MAX_LONGER = 1.05
# Slurm records whole seconds.
ROUNDING_S = 1


class Times(NamedTuple):
    """How long a job waited, and how long it ran, in whole seconds."""

    wait_s: int
    run_s: int


def main() -> int:
    """Run the jobs, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=JOBS, help="of each kind, default %(default)s")
    options = parser.parse_args()
    lab = open_lab()
    control_times, paid_times = [], []
    with _customer(lab) as customer:
        for number in range(options.jobs):
            lab_benchmarks.stop(lab)
            control_times.append(_run(lab, customer))
            lab_benchmarks.start(lab)
            paid_times.append(_run(lab, customer))
            print(
                f"{number + 1} of {options.jobs}: alone {control_times[-1]}, "
                f"with benchmarks {paid_times[-1]}",
                file=sys.stderr,
                flush=True,
            )
    return _report(control_times, paid_times)


@contextlib.contextmanager
def _customer(lab: Lab) -> Iterator[SlurmJobs]:
    """A customer who may submit jobs in Slurm."""
    with tempfile.TemporaryDirectory() as folder:
        access = operator_access(lab, Path(folder))
        with contextlib.closing(SlurmJobs(lab, access, f"0x{secrets.token_hex(20)}")) as customer:
            yield customer


def _run(lab: Lab, customer: SlurmJobs) -> Times:
    """Run a job and return its times."""
    job = customer.submit({"run": {"command": COMMAND}}, nodes=NODES)
    customer.wait(job)
    (record,) = lab.wait_ended(job.job_key.job_id.slurm_job_name)
    if record["state"] != "COMPLETED":
        raise RuntimeError(f"job {record['jobid']} ended as {record['state']}")
    start, end = int(record["start"]), int(record["end"])
    return Times(wait_s=start - int(record["submit"]), run_s=end - start)


def _report(control_times: list[Times], paid_times: list[Times]) -> int:
    """Print the figures of both kinds and return the exit code."""
    for title, times in (("alone", control_times), ("with benchmarks", paid_times)):
        waits = [job.wait_s for job in times]
        runs = [job.run_s for job in times]
        print(
            f"{title:18} waits: median {statistics.median(waits)} s, longest {max(waits)} s; "
            f"run times: median {statistics.median(runs)} s, longest {max(runs)} s"
        )
    longest_wait_s = max(job.wait_s for job in control_times) + MAX_LATER_S
    longest_run_s = MAX_LONGER * max(job.run_s for job in control_times) + ROUNDING_S
    late = sum(job.wait_s > longest_wait_s for job in paid_times)
    long = sum(job.run_s > longest_run_s for job in paid_times)
    print(f"too late: {late}, too long: {long} of {len(paid_times)} jobs")
    return 0 if late == long == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
