# SPDX-License-Identifier: Apache-2.0
"""Check that the forge tests detect small changes in settlement and life cycle.

Run this program as ``python -m contracts.mutation.campaign``. A mutant is a copy of the contracts
with one small change. Each mutant is built and tested. The tests must detect ("kill") at least 95 %
of the mutants. A mutant that behaves like the original is called equivalent and does not count.
contracts/exceptions.toml lists the equivalent mutants with the reasons.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from contracts.mutation.bench import CONTRACTS, Bench, MutantResult
from contracts.mutation.operators import Mutant, mutants_of

FILES = (
    "src/libraries/Billing.sol",
    "src/libraries/Definitions.sol",
    "src/libraries/Lifecycle.sol",
    "src/libraries/Records.sol",
    "src/JobRepository.sol",
    "src/JobSteps.sol",
    "src/MetaScheduler.sol",
)
MINIMUM_SHARE = 0.95
WORKERS = min(2, os.cpu_count() or 1)
PROGRESS_INTERVAL = 25


@dataclass(frozen=True)
class Change:
    """A mutant as a report shows it: the lines before and after, with single spaces."""

    file: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n  - {self.before}\n  + {self.after}"


def describe(file: str, source: str, mutant: Mutant) -> Change:
    """Return a mutant's change as whole lines."""
    start = source.rfind("\n", 0, mutant.start) + 1
    end = source.find("\n", mutant.start + len(mutant.old))
    after = mutant.apply(source)[start : end + len(mutant.new) - len(mutant.old)]
    line = source.count("\n", 0, mutant.start) + 1
    return Change(file, line, " ".join(source[start:end].split()), " ".join(after.split()))


@dataclass
class Campaign:
    """The mutants that are not yet tested, and the results of the tested ones. Thread-safe."""

    waiting: list[tuple[Change, str]]
    deadline: float
    total: int = 0
    results: dict[MutantResult, list[Change]] = field(
        default_factory=lambda: {result: [] for result in MutantResult}
    )
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_mutant(self) -> tuple[Change, str] | None:
        """Return the next mutant, or None if no mutant is left or the time is over."""
        with self.lock:
            if not self.waiting or time.monotonic() >= self.deadline:
                return None
            return self.waiting.pop()

    def add_result(self, change: Change, result: MutantResult) -> None:
        """Store a result, and print the progress at intervals."""
        with self.lock:
            self.results[result].append(change)
            tested = sum(map(len, self.results.values()))
            if tested % PROGRESS_INTERVAL == 0:
                survived = len(self.results[MutantResult.SURVIVED])
                print(f"mutants: {tested} of {self.total}, {survived} survived", flush=True)


def work(campaign: Campaign, bench: Bench) -> None:
    """Test mutants until none is left."""
    while True:
        mutant = campaign.take_mutant()
        if mutant is None:
            return
        change, text = mutant
        campaign.add_result(change, bench.try_mutant(change.file, text))


def collect(pattern: str) -> list[tuple[Change, str]]:
    """Return the mutants of each file whose name contains ``pattern``.

    The mutants are in random order, but every run has the same order.
    """
    collected = []
    for file in FILES:
        if pattern not in file:
            continue
        source = (CONTRACTS / file).read_text()
        mutants = mutants_of(source)
        collected += [(describe(file, source, mutant), mutant.apply(source)) for mutant in mutants]
    random.Random(0).shuffle(collected)  # noqa: S311
    return collected


def report(campaign: Campaign, *, is_whole: bool) -> int:
    """Print the figures and return the exit code.

    The code is 1 if too few mutants were killed, or if a mutant was not tested in time. After a
    whole campaign it is also 1 if contracts/exceptions.toml lists a mutant that did not survive,
    for example because it no longer exists.
    """
    entries = tomllib.loads((CONTRACTS / "exceptions.toml").read_text()).get("mutant", [])
    equivalent = {(entry["file"], entry["before"], entry["after"]) for entry in entries}
    survived = {}
    for change in campaign.results[MutantResult.SURVIVED]:
        survived[change.file, change.before, change.after] = change
    undetected = [change for key, change in survived.items() if key not in equivalent]
    stale = sorted(equivalent - survived.keys()) if is_whole and not campaign.waiting else []
    killed = len(campaign.results[MutantResult.KILLED])
    killed_share = killed / max(1, killed + len(undetected))

    for change in undetected:
        print(f"mutants: no test detects {change}")
    for entry in stale:
        message = f"mutants: contracts/exceptions.toml lists a mutant that did not survive: {entry}"
        print(message, file=sys.stderr)
    if campaign.waiting:
        untested = f"{len(campaign.waiting)} of {campaign.total}"
        print(f"mutants: {untested} were not tested in time", file=sys.stderr)
    tested = campaign.total - len(campaign.waiting)
    invalid = len(campaign.results[MutantResult.INVALID])
    equivalent_count = len(survived) - len(undetected)
    print(f"mutants: {tested} tested, {invalid} do not compile, {equivalent_count} equivalent")
    print(
        f"mutants: {killed} killed, {len(undetected)} survived:"
        f" {killed_share:.1%} killed, minimum {MINIMUM_SHARE:.0%}"
    )
    return 1 if killed_share < MINIMUM_SHARE or stale or campaign.waiting else 0


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="files whose names contain this", metavar="TEXT")
    parser.add_argument("--minutes", type=float, default=120, help="stop after this time")
    parser.add_argument("--workers", type=int, default=WORKERS, help="mutants tested in parallel")
    return parser.parse_args()


def run(campaign: Campaign, folder: Path, workers: int) -> None:
    """Test all mutants in parallel. Each worker has its own copy of the contracts in ``folder``."""
    benches: list[Bench] = []
    try:
        for number in range(workers):
            benches.append(Bench(folder / str(number)))
            result, output = benches[-1].run()
            if result is not MutantResult.SURVIVED:
                sys.exit(f"mutants: the tests fail on the original:\n{output}")
        threads = []
        for bench in benches:
            threads.append(threading.Thread(target=work, args=(campaign, bench), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()
    finally:
        campaign.deadline = 0
        for bench in benches:
            bench.close()


def main() -> int:
    """Run the campaign."""
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutants: stopped"))
    started = time.monotonic()
    waiting = collect(arguments.only)
    campaign = Campaign(waiting, started + arguments.minutes * 60, total=len(waiting))
    with tempfile.TemporaryDirectory(prefix="gridstead-mutants-") as folder:
        run(campaign, Path(folder), arguments.workers)
    print(f"mutants: {time.monotonic() - started:.0f} s")
    return report(campaign, is_whole=not arguments.only)


if __name__ == "__main__":
    sys.exit(main())
