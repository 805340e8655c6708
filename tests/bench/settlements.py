#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many settlements a second the sender takes to the chain, beside raw transactions of the same
calls.

A chain of its own (anvil, a block of 30 M gas every second, old states dropped) is taken to so many
running jobs. From that same state each way settles them. Raw: transactions that were signed
beforehand, given to the node as fast as it takes them. Sender: the calls wait in the outbox of a
store on disk, and the sender ticks as in a service. Both are timed from a new block until the block
with the last settlement is seen. It ends with 1 if a bar is missed.
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
from gridstead.adapters.chain.account import ChainAccount  # noqa: E402
from gridstead.adapters.chain.node import Node  # noqa: E402
from gridstead.adapters.clock import SystemClock  # noqa: E402
from gridstead.adapters.journal.database import Database  # noqa: E402
from gridstead.adapters.journal.outbox import SqlOutbox  # noqa: E402
from gridstead.domain.dispatch import DispatchPolicy  # noqa: E402
from gridstead.services.sender import Sender, SenderPorts  # noqa: E402
from gridstead.wiring.sending import BATCH  # noqa: E402

BLOCK_S = 1
TICK_S = 0.5  # a service's default
CONFIRMATIONS = 6
TIMEOUT_S = 600
POLL_S = 0.05
RATIO_BAR = 0.7
BATCHED_BAR = 100
BARRED = ("single", "batched")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What goes into a transaction: so many settlements at most, by our calls or by those of
    DeepSquare 1.2.
    """

    name: str
    size: int
    plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one way went: settlements, transactions, blocks with settlements, and seconds to the last
    of them.
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
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--singles", type=int, default=2000, help="settlements that go one to a transaction"
    )
    options.add_argument(
        "--batched", type=int, default=5000, help=f"settlements that go up to {BATCH} together"
    )
    options.add_argument(
        "--rounds", type=int, default=1, help="how often; the best of each way counts"
    )
    options.add_argument(
        "--json", action="store_true", help="print JSON on stdout instead of a table"
    )
    chosen = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    kinds = {
        Kind(name="single", size=1): chosen.singles,
        Kind(name="batched", size=BATCH): chosen.batched,
        Kind(name="old calls", size=1, plain=True): chosen.singles,
    }
    runs = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gridstead-bench-")))
        chain = BusyChain(folder, tell)
        stack.callback(chain.close)
        bench = Bench(chain, folder)
        calls = chain.running_jobs(max(kinds.values()))
        for kind, count in [*kinds.items()] * chosen.rounds:
            runs += [bench.raw(kind, calls[:count]), bench.sender(kind, calls[:count])]
    return report(runs, as_json=chosen.json)


class Bench:
    """What is measured on a chain with running jobs.

    Args:
        chain: Taken back to where it is now after each run.
        folder: For the senders' stores; on a disk where a flush takes its time.
    """

    def __init__(self, chain, folder):
        self.chain = chain
        self.folder = folder
        self.watch = Node(chain.anvil.url)
        self.stores = itertools.count(1)

    def account(self, kind):
        """Return the provider's account, and its contracts as of that generation."""
        contracts = (
            replace(self.chain.contracts, version="") if kind.plain else self.chain.contracts
        )
        return ChainAccount(self.chain.node, contracts, self.chain.provider)

    def raw(self, kind, calls):
        """Settle by transactions that are signed beforehand."""
        chain, account = self.chain, self.account(kind)
        tell(f"raw, {kind.name}: signing")
        (gas,) = account.gas([calls[:1]], room=BLOCK_GAS) if kind.plain else (None,)
        raws = chain.signed(
            account, in_batches(calls, kind.size), chain.nonce(chain.provider), gas=gas
        )
        return self.measured("raw", kind, len(calls), lambda _: chain.give(raws))

    def sender(self, kind, calls):
        """Settle by a service's sender."""
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
            tell(f"sender, {kind.name}: filling the outbox")
            for call in calls:
                outbox.put(f"settle:{call.job_key}", call)
            return self.measured("sender", kind, len(calls), lambda done: ticking(sender, done))

    def measured(self, way, kind, count, act):
        """Return the run of a way that begins with a new block, and take the chain back."""
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
        """Return in how many blocks, and after how long, all was settled by an act in another
        thread.
        """
        head = self.next_block(self.chain.ledger.head().number)
        began, done, errors = time.monotonic(), threading.Event(), []
        actor = threading.Thread(target=watched, args=(act, done, errors))
        actor.start()
        settled, blocks, seconds = 0, 0, 0.0
        try:
            while settled < count:
                head = self.next_block(head)
                seconds, new = time.monotonic() - began, self.settled_in(head)
                settled, blocks = settled + new, blocks + (new > 0)
                tell(f"{title}: {seconds:5.1f} s, {settled} of {count}")
                assert not errors, errors
                assert seconds < TIMEOUT_S
        finally:
            done.set()
            actor.join()
        return blocks, seconds

    def next_block(self, after):
        """Return the next height, once there is such a block."""
        while self.watch.ask("eth_getBlockByNumber", hex(after + 1), False) is None:
            time.sleep(POLL_S)
        return after + 1

    def settled_in(self, height):
        """Return how many jobs a block settled."""
        topic = artifact("MetaScheduler").events["JobSettled"].topic
        wanted = {"fromBlock": hex(height), "toBlock": hex(height), "topics": [topic]}
        return len(self.watch.ask("eth_getLogs", wanted))


def watched(act, done, errors):
    """Act, and keep what was raised for the thread that waits."""
    try:
        act(done)
    except BaseException as error:
        errors.append(error)
        raise


def ticking(sender, done):
    """Tick as a service's loop does: every so often, and at once if the last tick took longer."""
    due = time.monotonic()
    while not done.is_set():
        sender.tick()
        due = max(due + TICK_S, time.monotonic())
        done.wait(max(0.0, due - time.monotonic()))


def report(runs, *, as_json):
    """Print the best run of each way, the ratios and the bars."""
    best = {}
    for run in runs:
        key = run.way, run.kind
        best[key] = max(run, best.get(key, run), key=lambda one: one.per_second)
    ratios = {
        kind: best["sender", kind].per_second / best["raw", kind].per_second for _, kind in best
    }
    batched = best["sender", "batched"].per_second
    passed = min(ratios[kind] for kind in BARRED) >= RATIO_BAR and batched >= BATCHED_BAR
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "load": round(os.getloadavg()[0], 1),
    }
    if as_json:
        rows = [
            asdict(run) | {"seconds": round(run.seconds, 2), "per_second": round(run.per_second, 1)}
            for run in best.values()
        ]
        print(
            json.dumps(
                {
                    "runs": rows,
                    "ratios": {kind: round(ratio, 3) for kind, ratio in ratios.items()},
                    "machine": machine,
                    "passed": passed,
                },
                indent=2,
            )
        )
        return 0 if passed else 1
    print(f"\n{'':18} {'settled':>8} {'in tx':>8} {'blocks':>8} {'s':>8} {'a second':>9}")
    for run in best.values():
        figures = f"{run.settlements:8} {run.transactions:8} {run.blocks:8} {run.seconds:8.1f} {run.per_second:9.0f}"
        print(f"{run.way + ', ' + run.kind:18} {figures}")
    for kind, ratio in ratios.items():
        print(
            f"sender / raw, {kind}: {ratio:.2f}" + (f" (bar {RATIO_BAR})" if kind in BARRED else "")
        )
    print(f"jobs settled a second through the sender, batched: {batched:.0f} (bar {BATCHED_BAR})")
    print(f"machine: {machine['cores']} cores, {machine['machine']}, load {machine['load']}")
    return 0 if passed else 1


def tell(line):
    """Say what is going on."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
