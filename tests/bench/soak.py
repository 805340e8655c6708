#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run many short jobs through a whole grid while its services are killed, and check every job.

Several customers submit jobs to a grid with three providers. The chain (anvil, one block per
second), the meta-scheduler, the Job Definition service and the three supervisors are real
processes. Slurm is simulated behind the real agent. At moments that the seed determines, a service
is killed with SIGKILL, an agent is stopped, or the chain does not answer. A moment later it is
started again.

With --lab, the three providers join the grid of the running lab $GRIDSTEAD_LAB_NAME. The lab's own
provider, with its real Slurm, runs jobs too. Services on the lab's hosts are killed like the
others, and systemd starts them again. The chain is not stopped. Nobody else may use the lab at the
same time. At the end, the three providers are removed. The wallets, accounts and records of the
campaign's customers and jobs remain.

The table shows how many jobs were lost, ran or were settled twice, or were billed wrongly. It also
shows the jobs per second and the time of each stage of a job. The times of the chain and of Slurm
are whole seconds. The exit code is 1 if there is any such fault, and 130 after Ctrl-C. Without
--lab, the campaign needs no lab.
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
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control"), str(CHECKOUT / "tools")]

from tests.bench.lab_soak_grid import LabSoakGrid, open_lab  # noqa: E402
from tests.bench.process_grid import ProcessGrid  # noqa: E402
from tests.bench.soak_report import figures_of, print_table  # noqa: E402
from tests.bench.soak_run import Soak  # noqa: E402

from gridstead.errors import ConfigError  # noqa: E402

JOBS, LAB_JOBS = 10_000, 200
OPEN_JOBS, LAB_OPEN_JOBS = 500, 60
LAB_KILLS = 10
LAB_TIME_LIMIT_S = 3600
SHOWN_FAULTS = 20
INTERRUPTED = 130  # the exit code after Ctrl-C


def main():
    """Run the campaign, print the figures and return the exit code."""
    options = parse_options()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        lab = open_lab() if options.lab else None
    except ConfigError as error:
        report_progress(f"{error}. {error.hint}")
        return error.exit_code
    report_progress(f"seed {options.seed}")
    folder = Path(tempfile.mkdtemp(prefix="gridstead-soak-"))
    grid_class = partial(LabSoakGrid, lab) if lab else ProcessGrid
    open_grid = partial(grid_class, folder, options.customers, report_progress)
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
    parser.add_argument("--lab", action="store_true", help="use the grid of a running lab")
    parser.add_argument("--jobs", type=int, help=f"number of jobs ({JOBS}; with --lab {LAB_JOBS})")
    parser.add_argument("--customers", type=int, default=5, help="number of customers")
    parser.add_argument(
        "--open-jobs",
        type=int,
        help="the most jobs that are not settled at a time "
        f"({OPEN_JOBS}; with --lab {LAB_OPEN_JOBS})",
    )
    parser.add_argument(
        "--kills",
        type=int,
        help="number of kills (default: one for 100 jobs, at least 5; "
        f"with --lab at least {LAB_KILLS})",
    )
    parser.add_argument(
        "--time-limit-s",
        type=int,
        help=f"stop after this time (default: no limit; with --lab {LAB_TIME_LIMIT_S})",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the jobs and of the kills")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    options = parser.parse_args()
    set_defaults(options)
    for name in ("jobs", "customers", "open_jobs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    return options


def set_defaults(options):
    """Set the options whose default depends on other options."""
    if options.jobs is None:
        options.jobs = LAB_JOBS if options.lab else JOBS
    if options.open_jobs is None:
        options.open_jobs = LAB_OPEN_JOBS if options.lab else OPEN_JOBS
    if options.kills is None:
        options.kills = max(LAB_KILLS if options.lab else 5, options.jobs // 100)
    if options.time_limit_s is None and options.lab:
        options.time_limit_s = LAB_TIME_LIMIT_S


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
