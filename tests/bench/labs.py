#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the time to start the default lab, to start it again while it runs, and to remove it.

The benchmark uses a separate lab and builds the image before it measures. The exit code is 1 if the
ratio of the second `up` to the first `up` exceeds its limit.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

LAB = Path(__file__).resolve().parents[2] / "molecule/lab/lab.py"
MAX_RATIO = 0.25
RUNS = 5


def time_lab_command(name, *arguments):
    """Run a command of the lab tool and return its duration, in seconds."""
    start_s = time.monotonic()
    argv = [sys.executable, str(LAB), name, "--lab", "bench", *arguments]
    subprocess.run(argv, check=True, capture_output=True)
    return time.monotonic() - start_s


def main():
    """Run the benchmark, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=RUNS,
        help="number of labs, in sequence (default %(default)s)",
    )
    runs = parser.parse_args().runs
    time_lab_command("image")
    rows = []
    try:
        for number in range(runs):
            rows.append([time_lab_command("up"), time_lab_command("up"), time_lab_command("down")])
            times = ", ".join(f"{time_s:.2f} s" for time_s in rows[-1])
            print(f"{number + 1} of {runs}: {times}", file=sys.stderr)
    finally:
        time_lab_command("down")
    first_up_s, second_up_s, down_s = map(statistics.median, zip(*rows, strict=True))
    ratio = second_up_s / first_up_s
    print(
        f"up {first_up_s:.2f} s, again {second_up_s:.2f} s "
        f"(ratio {ratio:.2f}, at most {MAX_RATIO}), down {down_s:.2f} s"
    )
    return 0 if second_up_s <= MAX_RATIO * first_up_s else 1


if __name__ == "__main__":
    sys.exit(main())
