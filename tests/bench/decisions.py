#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how many matches the meta-scheduler decides per second, without the chain.

A grid of providers with up to 8 groups of equal nodes, and pending jobs of 200 customers, are made
from a seed. The jobs have a number of classes: jobs of a class have equal resources and labels.
About a quarter of the jobs find no room, so the benchmark includes those that must wait and the
reservations. Decisions are made until each pending job was matched or searched in vain. The work of
a decision is limited as in production, but not the number of matches. Then some jobs end, and the
time of the next decisions is measured. The exit code is 1 if a figure is worse than required.
"""

import argparse
import json
import os
import random
import resource
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from gridstead.domain.jobs.billing import Prices, Resources  # noqa: E402
from gridstead.domain.jobs.ids import JobId  # noqa: E402
from gridstead.domain.jobs.job import Hardware, Job, Label, Provider  # noqa: E402
from gridstead.domain.jobs.lifecycle import JobState  # noqa: E402
from gridstead.domain.matching.decisions import Rules  # noqa: E402
from gridstead.domain.matching.matcher import Matcher  # noqa: E402
from gridstead.domain.matching.turn import Turn  # noqa: E402

CREDIT = 10**18
CUSTOMERS = 200
ROUNDS = 20
ENDS_PER_ROUND = 100
MAX_TICK_S = 1.0
MANY_CLASSES = 20_000
MIN_JOBS_PER_S = 50_000
MIN_JOBS_PER_S_OF_MANY_CLASSES = 5_000
MAX_MEMORY_MIB = 1536
NOW = 10**9
BLOCK = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one run.

    Attributes:
        classes: The number of classes.
        jobs_per_s: Pending jobs divided by the time of the first decisions, which decide all jobs.
        decisions: The number of these decisions.
        matches: Their matches.
        first_tick_s: The 99th percentile of their times, seconds.
        tick_s: The longest of the later decisions, seconds.
        memory_mib: The most memory of the process so far.
    """

    classes: int
    jobs_per_s: int
    decisions: int
    matches: int
    first_tick_s: float
    tick_s: float
    memory_mib: int

    @property
    def has_passed(self):
        """Whether the figures are good enough. The first decision about few classes is long."""
        has_many_classes = self.classes > MANY_CLASSES
        min_jobs_per_s = MIN_JOBS_PER_S_OF_MANY_CLASSES if has_many_classes else MIN_JOBS_PER_S
        return (
            self.jobs_per_s >= min_jobs_per_s
            and self.tick_s <= MAX_TICK_S
            and (self.first_tick_s <= MAX_TICK_S or not has_many_classes)
            and self.memory_mib <= MAX_MEMORY_MIB
        )


class DecidedKinds:
    """The kinds of jobs for which no provider was found, while the context is open."""

    def __enter__(self):
        self._block_kind = block_kind = Turn._block_kind
        self._kinds, self._classes = set(), set()

        def note_kind(turn, kind):
            block_kind(turn, kind)
            self._kinds.add(kind)
            if kind.job_class in turn._full_classes:
                self._classes.add(kind.job_class)

        Turn._block_kind = note_kind
        return self

    def __exit__(self, *_error):
        Turn._block_kind = self._block_kind

    def has_all(self, matcher):
        """Return whether no provider was found for any pending job."""
        for queue in matcher.queues.values():
            for kind in queue.kinds.values():
                is_decided = kind in self._kinds or kind.job_class in self._classes
                if not is_decided and kind.only_job is None:
                    return False
        return True


def main():
    """Measure, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=100_000, help="pending jobs")
    parser.add_argument("--providers", type=int, default=1000)
    parser.add_argument(
        "--classes", type=int, nargs="+", default=[500, 5000, 100_000], help="numbers of classes"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    options = parser.parse_args()
    results = []
    for classes in options.classes:
        print(f"bench: {classes} classes", file=sys.stderr, flush=True)
        results.append(measure(options, classes))
    has_passed = all(figures.has_passed for figures in results)
    report(results, has_passed, as_json=options.json)
    return 0 if has_passed else 1


def measure(options, classes):
    """Return the figures for a number of classes."""
    source = random.Random(options.seed)
    matcher = Matcher(Rules(max_matches=10**9))
    for number in range(options.providers):
        matcher.set_provider(random_provider(source, number))
    kinds = [random_kind(source, number) for number in range(classes)]
    customers = [f"0x{number:040x}" for number in range(CUSTOMERS)]
    for customer in customers:
        amount = source.randint(1, 10**6) * CREDIT
        matcher.shares.transfer("0x" + "ff" * 20, customer, amount, block=1)
    for number in range(1, options.jobs + 1):
        job = random_job(source, number, kinds[number % classes], source.choice(customers))
        matcher.set_job(job, requested_block=BLOCK, matched_block=0)
    times, running_jobs = first_ticks(matcher)
    return Figures(
        classes=classes,
        jobs_per_s=round(options.jobs / sum(times)),
        decisions=len(times),
        matches=len(running_jobs),
        first_tick_s=sorted(times)[len(times) * 99 // 100],
        tick_s=max(later_ticks(source, matcher, running_jobs)),
        memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )


def first_ticks(matcher):
    """Decide about all pending jobs. Return the times of the decisions (s) and the matched jobs."""
    times, matched_jobs = [], []
    with DecidedKinds() as decided:
        while not times or not decided.has_all(matcher):
            start_s = time.perf_counter()
            decision = matcher.decide(now=NOW, block=BLOCK)
            times.append(time.perf_counter() - start_s)
            matched_jobs += [match.job for match in decision.matches]
    return times, matched_jobs


def later_ticks(source, matcher, running_jobs):
    """End some jobs before each decision, and return the times of the decisions in seconds."""
    times = []
    source.shuffle(running_jobs)
    for number in range(1, ROUNDS + 1):
        for job in running_jobs[-ENDS_PER_ROUND:]:
            matcher.remove_job(job.id)
        del running_jobs[-ENDS_PER_ROUND:]
        start_s = time.perf_counter()
        matcher.decide(now=NOW + number, block=BLOCK + number)
        times.append(time.perf_counter() - start_s)
    print(f"bench: median of {ROUNDS}: {statistics.median(times):.3f} s", file=sys.stderr)
    return times


def random_provider(source, number):
    """Return a provider with up to 8 groups of equal nodes."""
    gpus, cpus, memory = [], [], []
    for _ in range(source.randint(1, 8)):
        node_count = source.randint(1, 16)
        node_cpus = source.choice([16, 32, 64, 128])
        gpus += [source.choice([0, 0, 4, 8])] * node_count
        cpus += [node_cpus] * node_count
        memory += [node_cpus * 4000] * node_count
    price = source.randint(50, 150)
    return Provider(
        address=f"0x{number:040x}",
        hardware=Hardware(
            gpus_per_node=tuple(gpus), cpus_per_node=tuple(cpus), memory_per_node_mb=tuple(memory)
        ),
        prices=Prices(
            gpu_per_min=price * 10**15, cpu_per_min=price * 10**13, memory_mb_per_min=price * 10**9
        ),
        labels=(Label(key="region", value=source.choice("abcd")),),
        is_joined=True,
    )


def random_kind(source, number):
    """Return resources and labels. Two numbers never have equal resources."""
    resources = Resources(
        gpus=source.choice([0, 0, 0, 1, 4]),
        tasks=source.choice([1, 1, 2, 4, 8]),
        cpus_per_task=source.choice([1, 2, 4, 8, 16]),
        memory_per_cpu_mb=500 + number % 3000,
    )
    labels = source.choice([(), (Label(key="region", value="a"),)])
    return resources, labels


def random_job(source, number, kind, customer):
    """Return a pending job."""
    resources, labels = kind
    return Job(
        id=JobId(chain_id=1, contract="0x" + "cc" * 20, number=number),
        state=JobState.PENDING,
        customer=customer,
        provider="",
        resources=resources,
        batch_location_hash="bench",
        uses=labels,
        escrow=source.choice([10, 20, 50, 100]) * CREDIT,
        submitted_at=0,
        state_block=BLOCK,
    )


def report(results, has_passed, *, as_json):
    """Print the figures."""
    load = round(os.getloadavg()[0], 1)
    if as_json:
        rows = [{name: getattr(row, name) for name in Figures.__slots__} for row in results]
        print(json.dumps({"runs": rows, "load": load, "passed": has_passed}, indent=2))
        return
    print(
        f"\n{'classes':>8} {'jobs/s':>9} {'decisions':>9} {'matches':>8} {'p99, s':>8} "
        f"{'longest later tick, s':>22} {'MiB':>6}"
    )
    for row in results:
        print(
            f"{row.classes:8} {row.jobs_per_s:9,} {row.decisions:9} {row.matches:8,} "
            f"{row.first_tick_s:8.3f} {row.tick_s:22.3f} {row.memory_mib:6}"
        )
    print(f"machine: {os.cpu_count()} cores, load {load}")


if __name__ == "__main__":
    sys.exit(main())
