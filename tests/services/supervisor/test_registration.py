# SPDX-License-Identifier: Apache-2.0
"""Tests of the registration of a cluster on the chain."""

from dataclasses import replace

import pytest
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock, MemoryOutbox

from gridstead.domain.benchmarks.report import PastRun
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.supervisor.offers import Terms
from gridstead.services.supervisor.measured_labels import MeasuredLabels
from gridstead.services.supervisor.registration import Registration

PROVIDER = "0x" + "11" * 20
WEEK_S = 7 * 24 * 3600


class Runs:
    """The runs of the benchmarks."""

    def __init__(self):
        self.runs = ()

    def last_runs(self):
        return self.runs[-2:]

    def add(self, ended_at, gflops, **more_labels):
        labels = {
            "benchmark.suite": "gridstead-1-quick",
            "benchmark.time": str(ended_at),
            "compute.gflops": gflops,
            **more_labels,
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


def registration(ledger, outbox, runs, *, wait_s=0, own_terms=None):
    """Return the registration of a provider that has benchmarks."""
    return Registration(
        ledger,
        outbox,
        FakeScheduler(ledger.clock),
        benchmarks=MeasuredLabels(runs, ledger.clock, wait_s=wait_s),
        provider=PROVIDER,
        terms=own_terms or terms(cpu_per_min=2),
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


def test_the_first_registration_waits_for_the_first_report(ledger):
    outbox, runs = MemoryOutbox(), Runs()
    service = registration(ledger, outbox, runs, wait_s=600)
    service.tick()
    assert outbox.open_entries() == ()

    runs.add(ledger.head().timestamp, "100.00")
    service.tick()
    ledger.deliver(outbox, PROVIDER)

    assert published_labels(ledger)["compute.gflops"] == "100.00"


def test_the_first_registration_does_not_wait_longer_than_configured(ledger):
    outbox = MemoryOutbox()
    service = registration(ledger, outbox, Runs(), wait_s=600)
    service.tick()
    ledger.clock.advance(599)
    service.tick()
    assert outbox.open_entries() == ()

    ledger.clock.advance(1)
    service.tick()
    ledger.deliver(outbox, PROVIDER)

    assert published_labels(ledger) == {"zone": "lab"}


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


def test_a_measured_label_that_the_operator_has_too_is_no_change(ledger):
    outbox, runs = MemoryOutbox(), Runs()
    service = registration(ledger, outbox, runs)
    runs.add(ledger.head().timestamp, "100.00", arch="x86_64")
    service.tick()
    ledger.deliver(outbox, PROVIDER)

    own_terms = replace(terms(cpu_per_min=2), labels={"zone": "lab", "arch": "x86_64"})
    service = registration(ledger, outbox, runs, own_terms=own_terms)
    runs.add(ledger.head().timestamp, "100.00", arch="x86_64")
    ledger.clock.advance(WEEK_S)
    ledger.mine()
    service.tick()

    assert outbox.open_entries() == ()


def test_a_new_value_of_an_own_label_that_no_run_measures_is_registered_at_once(ledger):
    outbox, runs = MemoryOutbox(), Runs()
    old_terms = replace(terms(cpu_per_min=2), labels={"gpu": "a100"})
    service = registration(ledger, outbox, runs, own_terms=old_terms)
    runs.add(ledger.head().timestamp, "100.00")
    service.tick()
    ledger.deliver(outbox, PROVIDER)

    new_terms = replace(old_terms, labels={"gpu": "h100"})
    registration(ledger, outbox, runs, own_terms=new_terms).tick()
    ledger.deliver(outbox, PROVIDER)

    assert published_labels(ledger)["gpu"] == "h100"
    assert published_labels(ledger)["compute.gflops"] == "100.00"


def test_lost_reports_change_no_label(ledger):
    outbox, runs = MemoryOutbox(), Runs()
    service = registration(ledger, outbox, runs)
    runs.add(ledger.head().timestamp, "100.00")
    service.tick()
    ledger.deliver(outbox, PROVIDER)

    runs.runs = ()
    service.tick()

    assert outbox.open_entries() == ()
