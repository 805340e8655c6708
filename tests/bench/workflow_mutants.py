#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check thousands of mutants of the workflows in tests/corpus.

Each mutant must be accepted or refused with messages, without a crash, without side effects and
within two seconds of processor time. The script of an accepted mutant runs on a simulated node, and
must not execute a hostile text. The same seeds give the same mutants. The exit code is 1 if a
mutant does what it must not do.

Usage: workflow_mutants.py [--count NUMBER] [--first-seed NUMBER]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.unit.workflow.corpus_mutants import Faults, check_mutant  # noqa: E402

REPORT_EVERY = 500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000, help="number of mutants")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first mutant")
    options = parser.parse_args()
    faults = Faults()
    for number in range(options.count):
        with tempfile.TemporaryDirectory() as folder:
            check_mutant(options.first_seed + number, Path(folder), faults, run=True)
        if (number + 1) % REPORT_EVERY == 0:
            print(f"{number + 1} mutants, {faults.accepted} accepted", flush=True)
    duration_s, seed = faults.slowest
    print(f"{options.count} mutants: {faults.accepted} accepted, {faults.started} started")
    print(f"slowest: {duration_s:.2f} s of processor time (seed {seed})")
    for message in faults.messages:
        print(message)
    return 1 if faults.messages else 0


if __name__ == "__main__":
    sys.exit(main())
