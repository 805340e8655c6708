# SPDX-License-Identifier: Apache-2.0
"""Tests of the registration of a cluster on the chain."""

import pytest
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock, MemoryOutbox

from gridstead.domain.benchmarks.report import PastRun
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.supervisor.offers import Terms
from gridstead.services.supervisor.registration import Registration

PROVIDER = "0x" + "11" * 20
WEEK_S = 7 * 24 * 3600


class Runs:
    """The runs of the benchmarks."""

    def __init__(self):
        self.runs = ()

    def last_runs(self):
        return self.runs[-2:]

    def add(self, ended_at, gflops):
        labels = {
            "benchmark.suite": "gridstead-1-quick",
            "benchmark.time": str(ended_at),
            "compute.gflops": gflops,
        }
        self.runs += (PastRun(ended_at=ended_at, labels=labels),)


@pytest.fixture
def ledger():
    return FakeLedger(FakeClock())


def terms(cpu_per_min):
    """Return the terms of a provider with this price of a CPU."""
    prices = Prices(gpu_per_min=1, cpu_per_min=cpu_per_min, memory_mb_per_min=3)
    return Terms(prices=prices, labels={"zone": "lab"})


def test_cluster_is_registered_again_only_after_a_change(ledger):
    outbox = MemoryOutbox()
    slurm = FakeScheduler(ledger.clock)
    service = Registration(ledger, outbox, slurm, provider=PROVIDER, terms=terms(cpu_per_min=2))
    service.tick()
    ledger.deliver(outbox, PROVIDER)
    service.tick()
    assert outbox.open_entries() == ()

    changed_terms = terms(cpu_per_min=9)
    Registration(ledger, outbox, slurm, provider=PROVIDER, terms=changed_terms).tick()

    assert len(outbox.open_entries()) == 1


def registration(ledger, outbox, runs):
    """Return the registration of a provider that has benchmarks."""
    slurm = FakeScheduler(ledger.clock)
    return Registration(
        ledger, outbox, slurm, benchmarks=runs, provider=PROVIDER, terms=terms(cpu_per_min=2)
    )


def published_labels(ledger):
    """Return the labels of the provider's newest record."""
    head = ledger.head()
    record = ledger.waiting_provider(PROVIDER, at_block=head)
    record = record or ledger.providers([PROVIDER], at_block=head)[PROVIDER]
    return {label.key: label.value for label in record.labels}


def test_labels_of_the_first_run_are_registered_beside_those_of_the_operator(ledger):
    outbox, runs = MemoryOutbox(), Runs()
    service = registration(ledger, outbox, runs)
    service.tick()
    ledger.deliver(outbox, PROVIDER)
    assert published_labels(ledger) == {"zone": "lab"}

    runs.add(ledger.head().timestamp, "100.00")
    service.tick()
    ledger.deliver(outbox, PROVIDER)

    assert published_labels(ledger)["compute.gflops"] == "100.00"
    assert published_labels(ledger)["zone"] == "lab"


def test_labels_change_after_a_week_if_two_runs_agree(ledger):
    outbox, runs = MemoryOutbox(), Runs()
    service = registration(ledger, outbox, runs)
    runs.add(ledger.head().timestamp, "100.00")
    service.tick()
    ledger.deliver(outbox, PROVIDER)

    for _ in range(2):
        runs.add(ledger.head().timestamp, "50.00")
        service.tick()
        assert outbox.open_entries() == ()
    ledger.clock.advance(WEEK_S)
    ledger.mine()
    service.tick()
    ledger.deliver(outbox, PROVIDER)

    assert published_labels(ledger)["compute.gflops"] == "50.00"


def test_lost_reports_change_no_label(ledger):
    outbox, runs = MemoryOutbox(), Runs()
    service = registration(ledger, outbox, runs)
    runs.add(ledger.head().timestamp, "100.00")
    service.tick()
    ledger.deliver(outbox, PROVIDER)

    runs.runs = ()
    service.tick()

    assert outbox.open_entries() == ()
