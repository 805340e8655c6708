#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run many short jobs through a whole grid while its services are killed, and check every job.

Several customers submit jobs to a grid with three providers. The chain (anvil, one block per
second), the meta-scheduler, the Job Definition service and the three supervisors are real
processes. Slurm is simulated behind the real agent. At moments that the seed determines, a service
is killed with SIGKILL, an agent is stopped, or the chain does not answer. A moment later it is
started again.

The table shows how many jobs were lost, ran or were settled twice, or were billed wrongly. It also
shows the jobs per second and the time of each stage of a job. The times of the chain and of Slurm
are whole seconds. The exit code is 1 if there is any such fault, and 130 after Ctrl-C. The campaign
needs no lab.
"""

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"  # must be set before gRPC is imported

import structlog

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.bench.process_grid import ProcessGrid  # noqa: E402
from tests.bench.soak_report import figures_of, print_table  # noqa: E402
from tests.bench.soak_run import Soak  # noqa: E402

SHOWN_FAULTS = 20
INTERRUPTED = 130  # the exit code after Ctrl-C


def main():
    """Run the campaign, print the figures and return the exit code."""
    options = parse_options()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    report_progress(f"seed {options.seed}")
    folder = Path(tempfile.mkdtemp(prefix="gridstead-soak-"))
    open_grid = partial(ProcessGrid, folder, options.customers, report_progress)
    soak = Soak(options, open_grid, report_progress)
    try:
        soak.run()
    except KeyboardInterrupt:
        soak.is_interrupted = True
    finally:
        soak.close()
    return report(soak, folder)


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=10_000, help="number of jobs")
    parser.add_argument("--customers", type=int, default=5, help="number of customers")
    parser.add_argument(
        "--open-jobs", type=int, default=500, help="the most jobs that are not settled at a time"
    )
    parser.add_argument(
        "--kills", type=int, help="number of kills (default: one for 100 jobs, at least 5)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the jobs and of the kills")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    options = parser.parse_args()
    for name in ("jobs", "customers", "open_jobs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if options.kills is None:
        options.kills = max(5, options.jobs // 100)
    return options


def report(soak, folder):
    """Print the figures and the first faults, and return the exit code.

    Args:
        soak: The campaign.
        folder: The folder with the outputs of the services.
    """
    figures, faults = figures_of(soak)
    if soak.options.json:
        print(json.dumps(figures, indent=2))
    else:
        print_table(figures)
    for kind in ("lost", "doubled", "misbilled"):
        for line in getattr(faults, kind)[:SHOWN_FAULTS]:
            report_progress(f"{kind}: {line}")
    if faults:
        report_progress(f"the outputs of the services are in {folder}")
        return 1
    shutil.rmtree(folder)
    return INTERRUPTED if soak.is_interrupted else 0


def report_progress(line):
    """Print a line of progress."""
    print(f"campaign: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
