#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the default lab takes to come up, to be asked for again while it is up, and to go down.

A lab of its own, whose image is there already. It ends with 1 if a bar is missed: the ratio of a
second `up` to the first.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

LAB = Path(__file__).resolve().parents[2] / "molecule/lab/lab.py"
AGAIN_BAR = 0.25
RUNS = 5


def seconds(*words):
    """Return how long a command of the lab's tool takes, seconds."""
    began = time.monotonic()
    subprocess.run(
        [sys.executable, str(LAB), words[0], "--lab", "bench", *words[1:]],
        check=True,
        capture_output=True,
    )
    return time.monotonic() - began


def main():
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=RUNS,
        help="labs to make one after the other (default %(default)s)",
    )
    runs = parser.parse_args().runs
    seconds("image")
    rows = []
    try:
        for number in range(runs):
            rows.append([seconds("up"), seconds("up"), seconds("down")])
            print(
                f"{number + 1} of {runs}: {', '.join(f'{each:.2f} s' for each in rows[-1])}",
                file=sys.stderr,
            )
    finally:
        seconds("down")
    first, again, down = (statistics.median(column) for column in zip(*rows, strict=True))
    print(
        f"up {first:.2f} s, again {again:.2f} s (ratio {again / first:.2f}, bar {AGAIN_BAR}), down {down:.2f} s"
    )
    return 0 if again <= AGAIN_BAR * first else 1


if __name__ == "__main__":
    sys.exit(main())
