#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the settlements per second of the sender with raw transactions of the same calls.

The benchmark starts a separate chain (anvil, one block of 30 M gas per second) and creates running
jobs on it. It then settles the same jobs with two methods, each from the same state of the chain.
Method "raw" sends signed transactions to the node without a pause. Method "sender" puts the calls
into the outbox of a store on disk and runs the sender as a service does. The time starts with a new
block and ends with the block of the last settlement. The exit code is 1 if a measurement misses its
limit.
"""

import argparse
import contextlib
import itertools
import json
import logging
import os
import platform
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import structlog

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.bench.running_jobs import BLOCK_GAS, BusyChain, in_batches  # noqa: E402

from gridstead.adapters.chain.abi import artifact  # noqa: E402
from gridstead.adapters.chain.ledger import ChainLedger  # noqa: E402
from gridstead.adapters.chain.node import Node  # noqa: E402
from gridstead.adapters.clock import SystemClock  # noqa: E402
from gridstead.adapters.store.database import Database  # noqa: E402
from gridstead.adapters.store.outbox import SqlOutbox  # noqa: E402
from gridstead.adapters.transactions.account import ChainAccount  # noqa: E402
from gridstead.domain.transactions.plan import DispatchPolicy  # noqa: E402
from gridstead.services.transactions.sender import Sender, SenderPorts  # noqa: E402
from gridstead.wiring.transactions import MAX_BATCH  # noqa: E402

BLOCK_S = 1
TICK_S = 0.5  # the default of a service
CONFIRMATIONS = 6
TIMEOUT_S = 600
POLL_S = 0.05
READ_JOBS = 1000
READ_ROUNDS = 5
MIN_RATIO = 0.7
MIN_BATCHED_PER_S = 100
KINDS_WITH_LIMIT = ("single", "batched")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of transaction.

    Attributes:
        name: The name in the report.
        max_settlements: The largest number of settlements in a transaction.
        uses_old_calls: Whether the transactions use the calls of DeepSquare 1.2.
    """

    name: str
    max_settlements: int
    uses_old_calls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of one method.

    ``blocks`` is the number of blocks with settlements. ``seconds`` is the time until the last
    settlement. ``cpu_s`` is the CPU time of the thread that sends the transactions.
    """

    method: str
    kind: str
    settlements: int
    transactions: int
    blocks: int
    seconds: float
    cpu_s: float

    @property
    def per_second(self):
        """Settlements per second."""
        return self.settlements / self.seconds

    @property
    def cpu_ms(self):
        """CPU time per settlement, milliseconds."""
        return 1000 * self.cpu_s / self.settlements


def main():
    """Run all methods, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--singles",
        type=int,
        default=2000,
        help="number of settlements that are sent one per transaction",
    )
    parser.add_argument(
        "--batched",
        type=int,
        default=5000,
        help=f"number of settlements that are sent up to {MAX_BATCH} per transaction",
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="number of runs; the best run of each method counts"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON on stdout instead of a table"
    )
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    kinds = {
        Kind(name="single", max_settlements=1): options.singles,
        Kind(name="batched", max_settlements=MAX_BATCH): options.batched,
        Kind(name="old calls", max_settlements=1, uses_old_calls=True): options.singles,
    }
    runs = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gridstead-bench-")))
        chain = BusyChain(folder, report_progress)
        stack.callback(chain.close)
        bench = Bench(chain, folder)
        calls = chain.create_running_jobs(max(kinds.values()))
        reading_ms = cpu_ms_of_reading(chain, calls[:READ_JOBS])
        for _ in range(options.rounds):
            for kind, count in kinds.items():
                runs.append(bench.run_raw(kind, calls[:count]))
                runs.append(bench.run_sender(kind, calls[:count]))
    return report(runs, reading_ms, as_json=options.json)


class Bench:
    """Measurements on a chain with running jobs.

    Args:
        chain: The chain. Each run restores its present state.
        folder: The folder for the senders' stores, on a disk with a real fsync.
    """

    def __init__(self, chain, folder):
        self.chain = chain
        self.folder = folder
        self.watching_node = Node(chain.anvil.url)
        self.store_numbers = itertools.count(1)

    def account(self, kind):
        """Return the provider's account, which uses the calls of this kind."""
        contracts = self.chain.contracts
        if kind.uses_old_calls:
            # For contracts without a version, the account uses the calls of DeepSquare 1.2.
            contracts = replace(contracts, version="")
        return ChainAccount(self.chain.node, contracts, self.chain.provider)

    def run_raw(self, kind, calls):
        """Settle with transactions that were signed in advance."""
        chain, account = self.chain, self.account(kind)
        report_progress(f"raw, {kind.name}: signing")
        gas = None
        if kind.uses_old_calls:
            # Each transaction settles one job, so the gas of the first is enough for all.
            (gas,) = account.gas([calls[:1]], available_gas=BLOCK_GAS)
        signed_transactions = chain.sign_batches(
            account, in_batches(calls, kind.max_settlements), chain.nonce(chain.provider), gas=gas
        )
        return self.measure("raw", kind, len(calls), lambda _stop: chain.send(signed_transactions))

    def run_sender(self, kind, calls):
        """Settle with the sender of a service."""
        url = f"sqlite:///{self.folder}/{next(self.store_numbers)}.db"
        with contextlib.closing(Database(url)) as database:
            clock = SystemClock()
            outbox, account = SqlOutbox(database, clock), self.account(kind)
            ports = SenderPorts(
                clock=clock,
                ledger=self.chain.ledger,
                account=account,
                transactions=outbox,
            )
            sender = Sender(
                ports,
                DispatchPolicy(confirmations=CONFIRMATIONS, max_batch_calls=kind.max_settlements),
            )
            report_progress(f"sender, {kind.name}: filling the outbox")
            for call in calls:
                outbox.put(f"settle:{call.job_key}", call)
            return self.measure(
                "sender", kind, len(calls), lambda stop: tick_until_stopped(sender, stop)
            )

    def measure(self, method, kind, count, settle_jobs):
        """Run a method from a new block, restore the chain and return the result."""
        anvil = self.chain.anvil
        snapshot = anvil.rpc("evm_snapshot")
        nonce = self.chain.nonce(self.chain.provider)
        anvil.rpc("evm_setIntervalMining", BLOCK_S)
        try:
            title = f"{method}, {kind.name}"
            blocks, seconds, cpu_s = self.run_until_settled(title, count, settle_jobs)
            transactions = self.chain.nonce(self.chain.provider) - nonce
        finally:
            anvil.rpc("evm_setIntervalMining", 0)
            anvil.rpc("anvil_dropAllTransactions")
            anvil.rpc("evm_revert", snapshot)
        return Run(
            method=method,
            kind=kind.name,
            settlements=count,
            transactions=transactions,
            blocks=blocks,
            seconds=seconds,
            cpu_s=cpu_s,
        )

    def run_until_settled(self, title, count, settle_jobs):
        """Run ``settle_jobs`` in a thread until all jobs are settled.

        Returns the number of blocks with settlements, the seconds, and the CPU time of the thread.
        """
        head = self.next_block(self.chain.ledger.head().number)
        stop, errors, cpu_times_s = threading.Event(), [], []
        actor = threading.Thread(
            target=run_and_report_errors, args=(settle_jobs, stop, errors, cpu_times_s)
        )
        start_s = time.monotonic()
        actor.start()
        settled_count, blocks, seconds = 0, 0, 0.0
        try:
            while settled_count < count:
                head = self.next_block(head)
                seconds = time.monotonic() - start_s
                settled_in_block = self.settled_in(head)
                settled_count += settled_in_block
                if settled_in_block:
                    blocks += 1
                report_progress(f"{title}: {seconds:5.1f} s, {settled_count} of {count}")
                assert not errors, errors
                assert seconds < TIMEOUT_S
        finally:
            stop.set()
            actor.join()
        return blocks, seconds, sum(cpu_times_s)

    def next_block(self, after):
        """Wait until the block after this number exists and return its number."""
        while self.watching_node.ask("eth_getBlockByNumber", hex(after + 1), False) is None:
            time.sleep(POLL_S)
        return after + 1

    def settled_in(self, height):
        """Return the number of jobs that a block settled."""
        topic = artifact("MetaScheduler").events["JobSettled"].topic
        log_filter = {"fromBlock": hex(height), "toBlock": hex(height), "topics": [topic]}
        return len(self.watching_node.ask("eth_getLogs", log_filter))


def cpu_ms_of_reading(chain, calls):
    """Return the CPU time in which the ledger reads and decodes the jobs of calls, milliseconds.

    This is the smallest time of ``READ_ROUNDS`` runs, without the CPU time of the node.
    """
    job_ids = [call.job_key.job_id for call in calls]
    head = chain.ledger.head()
    times_s = []
    for _ in range(READ_ROUNDS):
        ledger = ChainLedger(chain.node, chain.contracts)  # without the cached jobs
        start_s = time.thread_time()
        assert len(ledger.jobs(job_ids, at_block=head)) == len(job_ids)
        times_s.append(time.thread_time() - start_s)
    return 1000 * min(times_s)


def run_and_report_errors(settle_jobs, stop, errors, cpu_times_s):
    """Run ``settle_jobs``. Pass an exception and the CPU time to the waiting thread."""
    start_s = time.thread_time()
    try:
        settle_jobs(stop)
    except BaseException as error:
        errors.append(error)
        raise
    finally:
        cpu_times_s.append(time.thread_time() - start_s)


def tick_until_stopped(sender, stop):
    """Tick like a service: at fixed intervals, or immediately after a longer tick."""
    due_at = time.monotonic()
    while not stop.is_set():
        sender.tick()
        due_at = max(due_at + TICK_S, time.monotonic())
        stop.wait(max(0.0, due_at - time.monotonic()))


def best_runs(runs):
    """Return the run with the most settlements per second, by method and kind."""
    best = {}
    for run in runs:
        # For the first run of its method and kind, this is the run itself.
        previous_run = best.get((run.method, run.kind), run)
        if run.per_second >= previous_run.per_second:
            best[run.method, run.kind] = run
    return best


def report(runs, reading_ms, *, as_json):
    """Print the best run of each method, the ratios and the limits; return the exit code."""
    best = best_runs(runs)
    ratios = {}
    for _, kind in best:
        ratios[kind] = best["sender", kind].per_second / best["raw", kind].per_second
    batched_rate = best["sender", "batched"].per_second
    smallest_ratio = min(ratios[kind] for kind in KINDS_WITH_LIMIT)
    has_passed = smallest_ratio >= MIN_RATIO and batched_rate >= MIN_BATCHED_PER_S
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "load": round(os.getloadavg()[0], 1),
    }
    if as_json:
        print(to_json(best, ratios, reading_ms, machine, passed=has_passed))
        return 0 if has_passed else 1
    columns = f"{'settled':>8} {'in tx':>8} {'blocks':>8} {'s':>8} {'per s':>9} {'CPU ms':>8}"
    print(f"\n{'':18} {columns}")
    for (method, kind), run in best.items():
        counts = f"{run.settlements:8} {run.transactions:8} {run.blocks:8}"
        title = f"{method}, {kind}"
        rates = f"{run.seconds:8.1f} {run.per_second:9.0f} {run.cpu_ms:8.2f}"
        print(f"{title:18} {counts} {rates}")
    for kind, ratio in ratios.items():
        limit = f" (at least {MIN_RATIO})" if kind in KINDS_WITH_LIMIT else ""
        print(f"sender / raw, {kind}: {ratio:.2f}{limit}")
    print(
        f"settlements per second, sender, batched: {batched_rate:.0f}"
        f" (at least {MIN_BATCHED_PER_S})"
    )
    print(f"CPU time to read {READ_JOBS} jobs: {reading_ms:.0f} ms")
    print(f"machine: {machine['cores']} cores, {machine['machine']}, load {machine['load']}")
    return 0 if has_passed else 1


def to_json(best, ratios, reading_ms, machine, *, passed):
    """Return the figures as JSON."""
    rows = []
    for run in best.values():
        figures = {
            "seconds": round(run.seconds, 2),
            "per_second": round(run.per_second, 1),
            "cpu_s": round(run.cpu_s, 3),
            "cpu_ms": round(run.cpu_ms, 3),
        }
        row = asdict(run) | figures
        row["way"] = row.pop("method")  # the key that earlier reports have
        rows.append(row)
    rounded_ratios = {kind: round(ratio, 3) for kind, ratio in ratios.items()}
    result = {
        "runs": rows,
        "ratios": rounded_ratios,
        "reading_ms": round(reading_ms, 1),
        "machine": machine,
        "passed": passed,
    }
    return json.dumps(result, indent=2)


def report_progress(line):
    """Print a line of progress."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
