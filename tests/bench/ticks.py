#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the ticks of the meta-scheduler, with all reads of the chain.

A server with a synthetic grid answers the JSON-RPC requests (synthetic_chain.py). Many jobs are
pending. In each block, some jobs are requested and as many end, and the matches of the last tick
are made. The time of the server counts too, because a tick waits for it. The exit code is 1 if the
p99 of the ticks is longer than required.
"""

import argparse
import contextlib
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import structlog

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.bench.synthetic_chain import CONTRACTS  # noqa: E402

from gridstead.adapters.chain.ledger import ChainLedger  # noqa: E402
from gridstead.adapters.chain.node import Node  # noqa: E402
from gridstead.adapters.clock import SystemClock  # noqa: E402
from gridstead.adapters.store.cursor import VolatileCursor  # noqa: E402
from gridstead.adapters.store.database import Database  # noqa: E402
from gridstead.adapters.store.outbox import SqlOutbox  # noqa: E402
from gridstead.adapters.store.snapshots import SqlSnapshotStore  # noqa: E402
from gridstead.domain.transactions.outbox import EntryChange, SendState  # noqa: E402
from gridstead.services.chain.follower import Follower  # noqa: E402
from gridstead.services.matching.meta_scheduler import MetaScheduler  # noqa: E402
from gridstead.services.matching.skipped_matches import SkippedMatches  # noqa: E402
from gridstead.services.matching.snapshots import Snapshots  # noqa: E402
from gridstead.services.simulation.figures import percentile  # noqa: E402

CONFIRMATIONS = 6
REQUESTS_PER_BLOCK = 1000  # before the measurement
PROVIDERS = 100


class BenchGrid:
    """A meta-scheduler on the synthetic chain. ``advance`` plays the sender and the providers."""

    def __init__(self, url, folder):
        self.node = Node(url, timeout_s=600)
        self.database = Database(f"sqlite:///{folder}/state.db")
        self.outbox = SqlOutbox(self.database, SystemClock())
        self.start()

    def start(self):
        """Start a meta-scheduler. Its first tick restores the snapshot in the database."""
        ledger = ChainLedger(self.node, CONTRACTS, with_transfers=True)
        self.cursor = VolatileCursor()
        self.service = MetaScheduler(
            ledger,
            Follower(ledger, self.cursor, confirmations=CONFIRMATIONS),
            self.outbox,
            confirmations=CONFIRMATIONS,
            skipped_matches=SkippedMatches(SystemClock()),
        )
        self.snapshots = Snapshots(
            self.service,
            self.cursor,
            ledger,
            SqlSnapshotStore(self.database, rules=""),
            confirmations=CONFIRMATIONS,
        )

    def advance(self, *, requests, ends):
        """Mine a block with the matches in the outbox. Return the number of matches."""
        entries = self.outbox.open_entries()
        calls = [entry.call for entry in entries]
        matches = [(call.job_key.job_id.number, call.provider) for call in calls]
        self.node.ask("bench_advance", {"requests": requests, "matches": matches, "ends": ends})
        changes = [EntryChange(entry_id=entry.id, state=SendState.FINAL) for entry in entries]
        self.outbox.record("", changes=changes, withdrawn_nonces=(), closed_nonces=())
        return len(matches)

    def tick(self):
        """Return how long a tick takes, and how much time of a CPU it takes in this process."""
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        self.snapshots.tick()
        return time.perf_counter() - start_s, time.process_time() - start_cpu_s

    def restart(self):
        """Return for how long a snapshot delays a tick, how long it takes, and a restart from it.

        The time of the restart includes the first tick after it, at a new block.
        """
        start_s = time.perf_counter()
        self.service.snapshot(self.cursor.history())
        delay_s = time.perf_counter() - start_s
        start_s = time.perf_counter()
        self.snapshots.save()
        save_s = time.perf_counter() - start_s
        self.advance(requests=0, ends=0)
        self.start()
        return delay_s, save_s, self.tick()[0]

    def close(self):
        self.node.close()
        self.database.close()


def main():
    """Measure, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pending", type=int, default=100_000, help="pending jobs")
    parser.add_argument("--rate", type=int, default=100, help="requests and ends in each block")
    parser.add_argument("--ticks", type=int, default=100, help="measured ticks, one in each block")
    parser.add_argument("--max-p99-s", type=float, default=1.0)
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gridstead-bench-"))
        grid = BenchGrid(start_server(stack), folder)
        stack.callback(grid.close)
        figures = measure(grid, options)
    return report(figures, options)


def start_server(stack):
    """Start the server with the synthetic grid, and return its URL."""
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'control'}"}
    command = [sys.executable, "-m", "tests.bench.synthetic_chain", str(PROVIDERS)]
    server = stack.enter_context(
        subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True)
    )
    stack.callback(server.kill)
    return f"http://127.0.0.1:{int(server.stdout.readline())}"


def measure(grid, options):
    """Return the figures of the ticks, after the providers are full."""
    for start in range(0, options.pending, REQUESTS_PER_BLOCK):
        requests = min(REQUESTS_PER_BLOCK, options.pending - start)
        grid.advance(requests=requests, ends=0)
    first_s, _ = grid.tick()
    report_progress(f"the first tick took {first_s:.1f} s")
    while match_count := grid.advance(requests=0, ends=0):
        grid.advance(requests=match_count, ends=0)  # replace the jobs that are not pending now
        grid.tick()
    ticks_s, cpu_s = [], []
    match_count = 0
    for index in range(options.ticks):
        match_count += grid.advance(requests=options.rate, ends=options.rate)
        tick_s, tick_cpu_s = grid.tick()
        ticks_s.append(tick_s)
        cpu_s.append(tick_cpu_s)
        if not (index + 1) % 20:
            report_progress(f"{index + 1} of {options.ticks} ticks")
    delay_s, save_s, restart_s = grid.restart()
    return {
        "pending": len(grid.service.pending()),
        "rate": options.rate,
        "matches_per_tick": match_count // options.ticks,
        "first_tick_s": round(first_s, 2),
        "p50_s": round(statistics.median(ticks_s), 3),
        "p99_s": round(percentile(sorted(ticks_s), 99), 3),
        "cpu_p50_s": round(statistics.median(cpu_s), 3),
        "cpu_p99_s": round(percentile(sorted(cpu_s), 99), 3),
        "snapshot_delay_s": round(delay_s, 3),
        "snapshot_s": round(save_s, 2),
        "restart_s": round(restart_s, 2),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "load": round(os.getloadavg()[0], 1),
    }


def report(figures, options):
    """Print the figures, and return the exit code."""
    has_passed = figures["p99_s"] <= options.max_p99_s
    if options.json:
        print(json.dumps({**figures, "passed": has_passed}, indent=2))
        return 0 if has_passed else 1
    for name, value in figures.items():
        print(f"{name:>20} {value}")
    print(f"p99 at most {options.max_p99_s} s: {'passed' if has_passed else 'failed'}")
    return 0 if has_passed else 1


def report_progress(line):
    """Print a line of progress."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
