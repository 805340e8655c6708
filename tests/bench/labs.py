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


def seconds(name, *arguments):
    """Run a command of the lab tool and return its duration, in seconds."""
    start_s = time.monotonic()
    argv = [sys.executable, str(LAB), name, "--lab", "bench", *arguments]
    subprocess.run(argv, check=True, capture_output=True)
    return time.monotonic() - start_s


def main():
    """Run the benchmark and print the figures."""
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
    seconds("image")
    rows = []
    try:
        for number in range(runs):
            rows.append([seconds("up"), seconds("up"), seconds("down")])
            times = ", ".join(f"{time_s:.2f} s" for time_s in rows[-1])
            print(f"{number + 1} of {runs}: {times}", file=sys.stderr)
    finally:
        seconds("down")
    first, again, down = (statistics.median(column) for column in zip(*rows, strict=True))
    print(
        f"up {first:.2f} s, again {again:.2f} s (ratio {again / first:.2f}, at most {MAX_RATIO}), "
        f"down {down:.2f} s"
    )
    return 0 if again <= MAX_RATIO * first else 1


if __name__ == "__main__":
    sys.exit(main())
