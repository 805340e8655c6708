#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check what a flood of one customer's jobs costs the other customers, and the utilisation.

The scenarios are those in examples/simulations, with jobs for 70 %, 100 % and 130 % of the grid.
Each is simulated with the policies cheapest-first and balanced, and once more with balanced while
customer-1, who submits the most jobs, additionally submits 100 times the work of all others.

The utilisation with balanced must exceed that with cheapest-first by at least 10 percentage points
at full load, and must nowhere be more than 1 point lower. With the flood, 95 % of the jobs of the
other customers must wait at most 1.5 times as long as without it, or at most as long as 95 % of
their jobs run, whichever is more. The exit code is 1 if a limit is exceeded.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from gridstead.config.scenario_file import load_scenario  # noqa: E402
from gridstead.config.simulation import FloodOfJobs  # noqa: E402
from gridstead.services.simulation.figures import figures_of, percentile  # noqa: E402
from gridstead.services.simulation.simulator import CHEAPEST_FIRST  # noqa: E402
from gridstead.wiring.simulation import open_scenario  # noqa: E402

FOLDER = CHECKOUT / "examples" / "simulations"
SCENARIOS = ("low-load", "full-load", "overload")
FULL_LOAD = "full-load"
MIN_GAIN = 0.10  # of the utilisation at full load
MAX_LOSS = 0.01  # of the utilisation at every load
MAX_WAIT_FACTOR = 1.5


def main():
    """Simulate the scenarios, print the figures and return the exit code."""
    options = parse_options()
    results = {}
    for name in options.scenario or SCENARIOS:
        results[name] = measure(name, options)
    has_passed = all(result["passed"] for result in results.values())
    if options.json:
        print(json.dumps({"scenarios": results, "passed": has_passed}, indent=2))
    else:
        print_table(results)
    return 0 if has_passed else 1


def parse_options():
    """Return the options of the campaign."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--scenario", action="append", choices=SCENARIOS, help="only this scenario; repeatable"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--factor", type=float, default=100, help="the work of the flood")
    parser.add_argument("--customer", default="customer-1", help="who submits the flood")
    parser.add_argument(
        "--block-s", type=int, default=60, help="seconds between blocks; fewer take longer"
    )
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    return parser.parse_args()


def measure(name, options):
    """Simulate a scenario, and return its figures and whether they are within the limits."""
    settings = load_scenario(FOLDER / f"{name}.yaml")
    settings = settings.model_copy(update={"seed": options.seed, "block_s": options.block_s})
    flood = FloodOfJobs(customer=options.customer, factor=options.factor)
    settings_with_flood = settings.model_copy(update={"flood": flood})
    cheapest_first = simulate(settings, CHEAPEST_FIRST, options.customer)
    balanced = simulate(settings, "balanced", options.customer)
    flooded = simulate(settings_with_flood, "balanced", options.customer)
    gain = balanced["utilisation"] - cheapest_first["utilisation"]
    max_wait_s = max(MAX_WAIT_FACTOR * balanced["wait_p95_s"], balanced["run_p95_s"])
    is_gain_enough = gain >= (MIN_GAIN if name == FULL_LOAD else -MAX_LOSS)
    return {
        "cheapest_first": cheapest_first,
        "balanced": balanced,
        "flooded": flooded,
        "utilisation_gain": round(gain, 4),
        "max_wait_s": round(max_wait_s),
        "passed": is_gain_enough and flooded["wait_p95_s"] <= max_wait_s,
    }


def simulate(settings, policy, flooder):
    """Return the utilisation, and the figures of the customers other than the flooder."""
    started_s = time.process_time()
    scenario = open_scenario(settings, FOLDER)
    outcome = scenario.simulator(policy).run(scenario.duration_s)
    others = [run for run in outcome.runs if run.job.customer != flooder]
    seconds = round(time.process_time() - started_s)
    print(
        f"campaign: {policy}, {len(outcome.runs)} jobs: {seconds} s of CPU time,"
        f" load {os.getloadavg()[0]:.0f}",
        file=sys.stderr,
        flush=True,
    )
    return {
        "jobs": len(outcome.runs),
        "utilisation": figures_of(outcome, scenario.grid).utilisation,
        "wait_p95_s": percentile_95(run.seconds_waited(outcome.now) for run in others),
        "run_p95_s": percentile_95(run.job.run_s for run in others),
    }


def percentile_95(values):
    """Return the value that 95 % of the values do not exceed."""
    return percentile(sorted(values), 95)


def print_table(results):
    """Print the figures for people."""
    print(f"\n{'':11} {'utilisation, %':^24} {'wait of the others, p95, s':^34}")
    print(
        f"{'scenario':11} {'cheapest-first':>14} {'balanced':>9} {'without flood':>15}"
        f" {'with flood':>11} {'at most':>8}  result"
    )
    for name, result in results.items():
        print(
            f"{name:11} {result['cheapest_first']['utilisation']:14.1%}"
            f" {result['balanced']['utilisation']:9.1%}"
            f" {result['balanced']['wait_p95_s']:15,} {result['flooded']['wait_p95_s']:11,}"
            f" {result['max_wait_s']:8,}  {'passed' if result['passed'] else 'FAILED'}"
        )


if __name__ == "__main__":
    sys.exit(main())
