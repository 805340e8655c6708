#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the ticks of the meta-scheduler with and without registrations that were never approved.

The benchmark starts two chains (anvil) with the grid's contracts, one approved provider and some
pending jobs. On one of the chains, other addresses also register, and are not approved. Then a
meta-scheduler ticks on each chain in turn, after each new block. The exit code is 1 if the median
tick on the chain with the registrations takes much longer than the median tick on the other chain.
"""

import argparse
import contextlib
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.adapters.chain.grids import RealGrid, join_real_grid  # noqa: E402
from tests.devnet import Devnet  # noqa: E402
from tests.fakes.ledger import HARDWARE, PRICES  # noqa: E402

from gridstead.adapters.chain.node import RpcError  # noqa: E402
from gridstead.adapters.clock import SystemClock  # noqa: E402
from gridstead.adapters.store.cursor import VolatileCursor  # noqa: E402
from gridstead.adapters.store.database import Database  # noqa: E402
from gridstead.adapters.store.outbox import SqlOutbox  # noqa: E402
from gridstead.services.chain.follower import Follower  # noqa: E402
from gridstead.services.matching.meta_scheduler import MetaScheduler  # noqa: E402
from gridstead.services.matching.skipped_matches import SkippedMatches  # noqa: E402

CONFIRMATIONS = 6
REGISTRATION_GAS = 10**6
REGISTRATIONS_PER_BLOCK = 25
MAX_RATIO = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredChain:
    """A chain with pending jobs, its meta-scheduler, and the seconds of the measured ticks."""

    chain: Devnet
    service: MetaScheduler
    tick_seconds: list[float]


def main():
    """Measure both chains, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--unapproved", type=int, default=1000, help="registrations that were never approved"
    )
    parser.add_argument("--jobs", type=int, default=20, help="pending jobs on each chain")
    parser.add_argument("--ticks", type=int, default=40, help="measured ticks on each chain")
    parser.add_argument(
        "--json", action="store_true", help="print JSON on stdout instead of a table"
    )
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gridstead-bench-")))
        grids = {}
        for count in (0, options.unapproved):
            report_progress(f"starting a chain with {count} registrations that wait")
            grids[count] = start_grid(stack, folder / str(count), count, options.jobs)
        report_progress("measuring")
        for _ in range(options.ticks):
            for grid in grids.values():
                grid.chain.anvil.mine()
                grid.tick_seconds.append(seconds_of(grid.service.tick))
    return report(grids, as_json=options.json)


def start_grid(stack, folder, unapproved_count, job_count):
    """Return a chain whose meta-scheduler has read all events and matched the pending jobs."""
    folder.mkdir()
    chain = Devnet(folder, "--gas-limit", "30000000")
    stack.callback(chain.close)
    grid = join_real_grid(chain)
    for index in range(job_count):
        grid.request(f"script-{index}")
    register(grid, unapproved_count)
    database = stack.enter_context(contextlib.closing(Database(f"sqlite:///{folder}/state.db")))
    service = MetaScheduler(
        grid.ledger,
        Follower(grid.ledger, VolatileCursor(), confirmations=CONFIRMATIONS),
        SqlOutbox(database, SystemClock()),
        confirmations=CONFIRMATIONS,
        skipped_matches=SkippedMatches(SystemClock()),
    )
    # No sender runs, so the jobs remain pending, and each tick chooses their provider again.
    service.tick()
    assert "being matched" in set(service.pending().values())
    return MeasuredChain(chain=chain, service=service, tick_seconds=[])


def register(grid: RealGrid, count):
    """Register ``count`` addresses as providers. They are not approved."""
    chain = grid.devnet
    manager = chain.contracts.providers
    data = manager.register(HARDWARE, PRICES, ()).data
    addresses = [f"0x{number:040x}" for number in range(10**6, 10**6 + count)]
    chain.anvil.rpc("anvil_autoImpersonateAccount", True)
    chain.anvil.rpc("evm_setAutomine", False)
    for start in range(0, count, REGISTRATIONS_PER_BLOCK):
        requests = []
        for address in addresses[start : start + REGISTRATIONS_PER_BLOCK]:
            transaction = {"from": address, "to": manager.address, "data": data}
            requests.append(("anvil_setBalance", [address, hex(10**18)]))
            requests.append(
                ("eth_sendTransaction", [{**transaction, "gas": hex(REGISTRATION_GAS)}])
            )
        for answer in chain.node.batch(requests):
            assert not isinstance(answer, RpcError), answer
        chain.anvil.mine()
    chain.anvil.rpc("evm_setAutomine", True)
    chain.anvil.rpc("anvil_autoImpersonateAccount", False)
    head = grid.ledger.head()
    for address in (addresses[:1], addresses[-1:]):
        assert len(grid.ledger.providers(address, at_block=head)) == len(address)


def seconds_of(function):
    """Return how long a call of the function takes."""
    start_s = time.perf_counter()
    function()
    return time.perf_counter() - start_s


def report(grids, *, as_json):
    """Print the median ticks and their ratio, and return the exit code."""
    medians = {count: statistics.median(grid.tick_seconds) for count, grid in grids.items()}
    ratio = medians[max(medians)] / medians[min(medians)]
    has_passed = ratio <= MAX_RATIO
    load = round(os.getloadavg()[0], 1)
    if as_json:
        rows = [{"unapproved": count, "tick_ms": 1000 * value} for count, value in medians.items()]
        result = {"runs": rows, "ratio": round(ratio, 3), "load": load, "passed": has_passed}
        print(json.dumps(result, indent=2))
        return 0 if has_passed else 1
    print(f"\n{'registrations that wait':>24} {'median tick, ms':>16}")
    for count, value in medians.items():
        print(f"{count:24} {1000 * value:16.1f}")
    print(f"ratio: {ratio:.2f} (at most {MAX_RATIO})")
    print(f"machine: {os.cpu_count()} cores, load {load}")
    return 0 if has_passed else 1


def report_progress(line):
    """Print a line of progress."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
