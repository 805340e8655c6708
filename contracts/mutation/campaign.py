# SPDX-License-Identifier: Apache-2.0
"""Whether the forge tests notice small mistakes in settlement and life cycle.

Run it as ``python -m contracts.mutation.campaign``. Each mutant is built and tested in a copy of
its own. At least 95 % must be killed; survivors that behave as the original does are listed in
contracts/exceptions.toml with the reason, and do not count.
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

from contracts.mutation.bench import CONTRACTS, Bench, Verdict
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
BAR = 0.95
WORKERS = min(2, os.cpu_count() or 1)
NEWS_EVERY = 25


@dataclass(frozen=True)
class Change:
    """A mutant as people read it: the lines before and after, with single spaces."""

    file: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n  - {self.before}\n  + {self.after}"


def describe(file: str, source: str, mutant: Mutant) -> Change:
    """Return a mutant's change, as the whole lines that it touches."""
    start = source.rfind("\n", 0, mutant.start) + 1
    end = source.find("\n", mutant.start + len(mutant.old))
    after = mutant.apply(source)[start : end + len(mutant.new) - len(mutant.old)]
    line = source.count("\n", 0, mutant.start) + 1
    return Change(file, line, " ".join(source[start:end].split()), " ".join(after.split()))


@dataclass
class Campaign:
    """The mutants that wait and what became of the others; used by several threads."""

    waiting: list[tuple[Change, str]]
    deadline: float
    total: int = 0
    results: dict[Verdict, list[Change]] = field(
        default_factory=lambda: {verdict: [] for verdict in Verdict}
    )
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> tuple[Change, str] | None:
        """Return the next mutant, or None when there is none or no time is left."""
        with self.lock:
            return self.waiting.pop() if self.waiting and time.monotonic() < self.deadline else None

    def put(self, change: Change, verdict: Verdict) -> None:
        """Keep a verdict, and tell how far it is now and then."""
        with self.lock:
            self.results[verdict].append(change)
            done = sum(len(changes) for changes in self.results.values())
            if done % NEWS_EVERY == 0:
                survived = len(self.results[Verdict.SURVIVED])
                print(f"mutants: {done} of {self.total}, {survived} survived", flush=True)


def work(campaign: Campaign, bench: Bench) -> None:
    """Try mutants until there is none."""
    while (one := campaign.take()) is not None:
        change, text = one
        campaign.put(change, bench.try_mutant(change.file, text))


def collect(pattern: str) -> list[tuple[Change, str]]:
    """Return the mutants of the files whose names contain a text, in an order that is random but
    always the same.
    """
    found = []
    for file in FILES:
        if pattern in file:
            source = (CONTRACTS / file).read_text()
            found += [
                (describe(file, source, mutant), mutant.apply(source))
                for mutant in mutants_of(source)
            ]
    random.Random(0).shuffle(found)  # noqa: S311
    return found


def report(campaign: Campaign, *, is_whole: bool) -> int:
    """Print the figures; return 0 if they are as they should be."""
    entries = tomllib.loads((CONTRACTS / "exceptions.toml").read_text()).get("mutant", [])
    equivalent = {(entry["file"], entry["before"], entry["after"]) for entry in entries}
    survived = {
        (one.file, one.before, one.after): one for one in campaign.results[Verdict.SURVIVED]
    }
    gaps = [one for key, one in survived.items() if key not in equivalent]
    needless = sorted(equivalent - survived.keys()) if is_whole and not campaign.waiting else []
    killed = len(campaign.results[Verdict.KILLED])
    share = killed / max(1, killed + len(gaps))

    for one in gaps:
        print(f"mutants: nobody notices {one}")
    for entry in needless:
        print(
            f"mutants: contracts/exceptions.toml lists what does not survive: {entry}",
            file=sys.stderr,
        )
    if campaign.waiting:
        print(f"mutants: no time for {len(campaign.waiting)} of {campaign.total}", file=sys.stderr)
    tried, invalid = campaign.total - len(campaign.waiting), len(campaign.results[Verdict.INVALID])
    print(
        f"mutants: {tried} tried, {invalid} do not compile, {len(survived) - len(gaps)} equivalent"
    )
    print(f"mutants: {killed} killed, {len(gaps)} survived: {share:.1%} killed, bar {BAR:.0%}")
    return 1 if share < BAR or needless or campaign.waiting else 0


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="files whose names contain this", metavar="TEXT")
    parser.add_argument("--minutes", type=float, default=120, help="give up after this time")
    parser.add_argument(
        "--workers", type=int, default=WORKERS, help="mutants tried at the same time"
    )
    arguments = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutants: stopped"))
    began = time.monotonic()
    waiting = collect(arguments.only)
    campaign = Campaign(waiting, began + arguments.minutes * 60, total=len(waiting))
    with tempfile.TemporaryDirectory(prefix="gridstead-mutants-") as folder:
        benches = []
        try:
            for number in range(arguments.workers):
                benches.append(Bench(Path(folder) / str(number)))
                verdict, words = benches[-1].run()
                if verdict is not Verdict.SURVIVED:
                    sys.exit(f"mutants: the tests fail without a mistake:\n{words}")
            threads = [
                threading.Thread(target=work, args=(campaign, bench), daemon=True)
                for bench in benches
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            campaign.deadline = 0
            for bench in benches:
                bench.close()
    print(f"mutants: {time.monotonic() - began:.0f} s")
    return report(campaign, is_whole=not arguments.only)


if __name__ == "__main__":
    sys.exit(main())
