#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the settlements per second of the sender with raw transactions of the same calls.

The benchmark starts a separate chain (anvil, one block of 30 M gas per second, without old states)
and creates running jobs on it. Each way settles the jobs from the same state. Raw: signed
transactions are sent to the node without a pause. Sender: the calls are in the outbox of a store on
disk, and the sender ticks as in a service. The time starts with a new block and ends with the block
of the last settlement. The exit code is 1 if a limit is missed.
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
from gridstead.adapters.chain.node import Node  # noqa: E402
from gridstead.adapters.clock import SystemClock  # noqa: E402
from gridstead.adapters.store.database import Database  # noqa: E402
from gridstead.adapters.store.outbox import SqlOutbox  # noqa: E402
from gridstead.adapters.transactions.account import ChainAccount  # noqa: E402
from gridstead.domain.transactions.dispatch import DispatchPolicy  # noqa: E402
from gridstead.services.transactions.sender import Sender, SenderPorts  # noqa: E402
from gridstead.wiring.transactions import BATCH  # noqa: E402

BLOCK_S = 1
TICK_S = 0.5  # the default of a service
CONFIRMATIONS = 6
TIMEOUT_S = 600
POLL_S = 0.05
MIN_RATIO = 0.7
MIN_BATCHED = 100
LIMITED = ("single", "batched")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of transaction: the largest number of settlements, with our calls or with the calls of
    DeepSquare 1.2 (``plain``).
    """

    name: str
    size: int
    plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of one way: settlements, transactions, blocks with settlements, and seconds until
    the last settlement.
    """

    way: str
    kind: str
    settlements: int
    transactions: int
    blocks: int
    seconds: float

    @property
    def per_second(self):
        return self.settlements / self.seconds


def main():
    """Run all ways and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--singles", type=int, default=2000, help="settlements with one in each transaction"
    )
    parser.add_argument(
        "--batched",
        type=int,
        default=5000,
        help=f"settlements with up to {BATCH} in each transaction",
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="number of runs; the best run of each way counts"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON on stdout instead of a table"
    )
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    kinds = {
        Kind(name="single", size=1): options.singles,
        Kind(name="batched", size=BATCH): options.batched,
        Kind(name="old calls", size=1, plain=True): options.singles,
    }
    runs = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gridstead-bench-")))
        chain = BusyChain(folder, report_progress)
        stack.callback(chain.close)
        bench = Bench(chain, folder)
        calls = chain.running_jobs(max(kinds.values()))
        for kind, count in [*kinds.items()] * options.rounds:
            runs += [bench.raw(kind, calls[:count]), bench.sender(kind, calls[:count])]
    return report(runs, as_json=options.json)


class Bench:
    """Measurements on a chain with running jobs.

    Args:
        chain: The chain. Each run restores its present state.
        folder: The folder for the senders' stores, on a disk with a real fsync.
    """

    def __init__(self, chain, folder):
        self.chain = chain
        self.folder = folder
        self.watch = Node(chain.anvil.url)
        self.stores = itertools.count(1)

    def account(self, kind):
        """Return the provider's account, for the contracts of this kind."""
        contracts = (
            replace(self.chain.contracts, version="") if kind.plain else self.chain.contracts
        )
        return ChainAccount(self.chain.node, contracts, self.chain.provider)

    def raw(self, kind, calls):
        """Settle with transactions that were signed in advance."""
        chain, account = self.chain, self.account(kind)
        report_progress(f"raw, {kind.name}: signing")
        (gas,) = account.gas([calls[:1]], available_gas=BLOCK_GAS) if kind.plain else (None,)
        raws = chain.signed(
            account, in_batches(calls, kind.size), chain.nonce(chain.provider), gas=gas
        )
        return self.measured("raw", kind, len(calls), lambda _: chain.send(raws))

    def sender(self, kind, calls):
        """Settle with the sender of a service."""
        with contextlib.closing(
            Database(f"sqlite:///{self.folder}/{next(self.stores)}.db")
        ) as database:
            clock = SystemClock()
            outbox, account = SqlOutbox(database, clock), self.account(kind)
            ports = SenderPorts(
                clock=clock,
                ledger=self.chain.ledger,
                account=account,
                outbox=outbox,
                transactions=outbox,
            )
            sender = Sender(ports, DispatchPolicy(confirmations=CONFIRMATIONS, batch=kind.size))
            report_progress(f"sender, {kind.name}: filling the outbox")
            for call in calls:
                outbox.put(f"settle:{call.job_key}", call)
            return self.measured("sender", kind, len(calls), lambda done: ticking(sender, done))

    def measured(self, way, kind, count, act):
        """Run a way from a new block, restore the chain and return the result."""
        anvil = self.chain.anvil
        snapshot = anvil.rpc("evm_snapshot")
        nonce = self.chain.nonce(self.chain.provider)
        anvil.rpc("evm_setIntervalMining", BLOCK_S)
        try:
            blocks, seconds = self.followed(f"{way}, {kind.name}", count, act)
            used = self.chain.nonce(self.chain.provider) - nonce
        finally:
            anvil.rpc("evm_setIntervalMining", 0)
            anvil.rpc("anvil_dropAllTransactions")
            anvil.rpc("evm_revert", snapshot)
        return Run(
            way=way,
            kind=kind.name,
            settlements=count,
            transactions=used,
            blocks=blocks,
            seconds=seconds,
        )

    def followed(self, title, count, act):
        """Run ``act`` in a thread; return the number of blocks and the seconds until all jobs are
        settled.
        """
        head = self.next_block(self.chain.ledger.head().number)
        start_s, done, errors = time.monotonic(), threading.Event(), []
        actor = threading.Thread(target=watched, args=(act, done, errors))
        actor.start()
        settled, blocks, seconds = 0, 0, 0.0
        try:
            while settled < count:
                head = self.next_block(head)
                seconds, new = time.monotonic() - start_s, self.settled_in(head)
                settled, blocks = settled + new, blocks + (new > 0)
                report_progress(f"{title}: {seconds:5.1f} s, {settled} of {count}")
                assert not errors, errors
                assert seconds < TIMEOUT_S
        finally:
            done.set()
            actor.join()
        return blocks, seconds

    def next_block(self, after):
        """Return the next block number, once the block exists."""
        while self.watch.ask("eth_getBlockByNumber", hex(after + 1), False) is None:
            time.sleep(POLL_S)
        return after + 1

    def settled_in(self, height):
        """Return the number of jobs that a block settled."""
        topic = artifact("MetaScheduler").events["JobSettled"].topic
        log_filter = {"fromBlock": hex(height), "toBlock": hex(height), "topics": [topic]}
        return len(self.watch.ask("eth_getLogs", log_filter))


def watched(act, done, errors):
    """Run ``act`` and pass an exception to the waiting thread."""
    try:
        act(done)
    except BaseException as error:
        errors.append(error)
        raise


def ticking(sender, done):
    """Tick like a service: at fixed intervals, or immediately after a longer tick."""
    due = time.monotonic()
    while not done.is_set():
        sender.tick()
        due = max(due + TICK_S, time.monotonic())
        done.wait(max(0.0, due - time.monotonic()))


def report(runs, *, as_json):
    """Print the best run of each way, the ratios and the limits."""
    best = {}
    for run in runs:
        key = run.way, run.kind
        best[key] = max(run, best.get(key, run), key=lambda candidate: candidate.per_second)
    ratios = {
        kind: best["sender", kind].per_second / best["raw", kind].per_second for _, kind in best
    }
    batched = best["sender", "batched"].per_second
    passed = min(ratios[kind] for kind in LIMITED) >= MIN_RATIO and batched >= MIN_BATCHED
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "load": round(os.getloadavg()[0], 1),
    }
    if as_json:
        print(to_json(best, ratios, machine, passed=passed))
        return 0 if passed else 1
    print(f"\n{'':18} {'settled':>8} {'in tx':>8} {'blocks':>8} {'s':>8} {'per s':>9}")
    for run in best.values():
        counts = f"{run.settlements:8} {run.transactions:8} {run.blocks:8}"
        print(f"{f'{run.way}, {run.kind}':18} {counts} {run.seconds:8.1f} {run.per_second:9.0f}")
    for kind, ratio in ratios.items():
        limit = f" (at least {MIN_RATIO})" if kind in LIMITED else ""
        print(f"sender / raw, {kind}: {ratio:.2f}{limit}")
    print(f"settlements per second, sender, batched: {batched:.0f} (at least {MIN_BATCHED})")
    print(f"machine: {machine['cores']} cores, {machine['machine']}, load {machine['load']}")
    return 0 if passed else 1


def to_json(best, ratios, machine, *, passed):
    """Return the figures as JSON."""
    rows = []
    for run in best.values():
        figures = {"seconds": round(run.seconds, 2), "per_second": round(run.per_second, 1)}
        rows.append(asdict(run) | figures)
    rounded = {kind: round(ratio, 3) for kind, ratio in ratios.items()}
    result = {"runs": rows, "ratios": rounded, "machine": machine, "passed": passed}
    return json.dumps(result, indent=2)


def report_progress(line):
    """Print a line of progress."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
