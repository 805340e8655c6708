# SPDX-License-Identifier: Apache-2.0
"""Tests of the registration of a cluster on the chain."""

import pytest
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock, MemoryOutbox

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.supervisor.offers import Terms
from gridstead.services.supervisor.registration import Registration

PROVIDER = "0x" + "11" * 20


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
