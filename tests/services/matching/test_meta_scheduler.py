# SPDX-License-Identifier: Apache-2.0
"""Tests of the matches that the meta-scheduler requests, and of its reasons for pending jobs."""

import pytest
from tests.fakes.ledger import HARDWARE, PRICES, SMALL, FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor, MemoryOutbox

from gridstead.domain.jobs.billing import Prices, price_per_minute
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import Register
from gridstead.errors import InvalidInput
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches

PROVIDER = "0x" + "11" * 20
OTHER_PROVIDER = "0x" + "22" * 20
CUSTOMERS = ["0x" + "33" * 20, "0x" + "44" * 20, "0x" + "55" * 20]


@pytest.fixture
def ledger():
    return FakeLedger(FakeClock())


def meta_scheduler(ledger, outbox=None):
    follower = Follower(ledger, MemoryCursor())
    return MetaScheduler(
        ledger,
        follower,
        outbox or MemoryOutbox(),
        confirmations=2,
        skipped_matches=SkippedMatches(ledger.clock),
    )


class LedgerWithReadAddresses(FakeLedger):
    """A ledger that stores the addresses of the providers that were read, in ``read_addresses``."""

    def __init__(self):
        super().__init__(FakeClock())
        self.read_addresses = []

    def providers(self, addresses, *, at_block):
        self.read_addresses += addresses
        return super().providers(addresses, at_block=at_block)

    def approved_providers(self, addresses, *, at_block):
        self.read_addresses += addresses
        return super().approved_providers(addresses, at_block=at_block)


def open_calls(outbox):
    return [entry.call for entry in outbox.open_entries()]


@pytest.fixture
def refused_job(ledger):
    """Return a job that was matched with PROVIDER, and that PROVIDER claimed and then refused."""
    ledger.add_provider(PROVIDER)
    job = ledger.request(CUSTOMERS[0])
    ledger.match(job.id.number, PROVIDER)
    ledger.claim(PROVIDER)
    ledger.refuse(job.id.number)
    return job


def test_pending_job_without_a_provider_has_a_reason(ledger):
    service = meta_scheduler(ledger)
    job = ledger.request(CUSTOMERS[0])

    service.tick()

    assert "no provider" in service.pending()[job.id]
    assert service.matched() == {}


def test_job_is_matched_if_a_reorg_reverts_its_end(ledger):
    ledger.add_provider(PROVIDER)
    job = ledger.request(CUSTOMERS[0])
    ledger.cancel(job.id.number)
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    service.tick()
    ledger.mine()
    service.tick()
    assert outbox.entries() == ()

    # Remove the block of the cancellation and the empty block.
    ledger.reorg(2)
    assert ledger.job(job.id.number).state is JobState.PENDING
    service.tick()

    (match,) = open_calls(outbox)
    assert match.job_key == job.job_key


def test_pending_job_is_matched_after_a_provider_joins(ledger):
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    job = ledger.request(CUSTOMERS[0])
    service.tick()

    ledger.add_provider(PROVIDER)
    ledger.mine()
    service.tick()
    ledger.deliver(outbox, PROVIDER)
    service.tick()

    assert ledger.job(job.id.number).state is JobState.META_SCHEDULED
    assert service.matched() == {job.id: "META_SCHEDULED"}


def test_only_approved_providers_are_read_at_a_tick():
    ledger = LedgerWithReadAddresses()
    ledger.add_provider(PROVIDER)
    for number in range(1, 21):
        address = f"0x{number:040x}"
        ledger.act(address, Register(hardware=HARDWARE, prices=PRICES, labels=()))
    job = ledger.request(CUSTOMERS[0])
    outbox = MemoryOutbox()

    meta_scheduler(ledger, outbox).tick()

    assert ledger.read_addresses == [PROVIDER]
    (match,) = open_calls(outbox)
    assert (match.job_key, match.provider) == (job.job_key, PROVIDER)


def test_prices_of_a_record_that_waits_do_not_affect_a_match(ledger):
    ledger.add_provider(PROVIDER)
    low_prices = Prices(gpu_per_min=0, cpu_per_min=0, memory_mb_per_min=0)
    ledger.act(PROVIDER, Register(hardware=HARDWARE, prices=low_prices, labels=()))
    ledger.request(CUSTOMERS[0])
    outbox = MemoryOutbox()

    meta_scheduler(ledger, outbox).tick()

    (match,) = open_calls(outbox)
    assert match.max_price_per_min == price_per_minute(SMALL, PRICES)


def test_match_fails_if_the_price_rises_before_it_is_mined(ledger):
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    ledger.add_provider(PROVIDER)
    job = ledger.request(CUSTOMERS[0])
    service.tick()

    high_prices = Prices(gpu_per_min=0, cpu_per_min=10**18, memory_mb_per_min=0)
    ledger.add_provider(PROVIDER, prices=high_prices)
    ledger.deliver(outbox, PROVIDER)

    assert ledger.job(job.id.number).state is JobState.PENDING


def test_job_is_not_matched_again_with_a_provider_that_refused_it(ledger, refused_job):
    outbox = MemoryOutbox()
    restarted_service = meta_scheduler(ledger, outbox)

    restarted_service.tick()

    assert outbox.open_entries() == ()
    assert "refused it" in restarted_service.pending()[refused_job.id]


def test_refused_job_is_matched_with_another_provider(ledger, refused_job):
    ledger.add_provider(OTHER_PROVIDER)
    outbox = MemoryOutbox()

    meta_scheduler(ledger, outbox).tick()

    (match,) = open_calls(outbox)
    assert match.provider == OTHER_PROVIDER


def test_refusal_on_an_old_fork_does_not_affect_a_new_job_with_the_same_number(ledger, refused_job):
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)
    service.tick()

    # Remove the blocks of the request, the match, the claim and the refusal.
    ledger.reorg(4)
    new_job = ledger.request(CUSTOMERS[1])
    service.tick()

    assert new_job.id == refused_job.id
    (match,) = open_calls(outbox)
    assert match.job_key == new_job.job_key
    assert match.provider == PROVIDER


@pytest.mark.parametrize("script", ["../../etc/passwd", "a/b", "x" * 32, "é"])
def test_job_with_a_malformed_script_id_is_not_matched(ledger, script):
    ledger.add_provider(PROVIDER)
    malformed_job = ledger.request(CUSTOMERS[0], script=script)
    valid_job = ledger.request(CUSTOMERS[1])
    outbox = MemoryOutbox()
    service = meta_scheduler(ledger, outbox)

    service.tick()

    (match,) = open_calls(outbox)
    assert match.job_key == valid_job.job_key
    assert service.pending()[malformed_job.id] == "the script id of the job is malformed"


def test_match_that_cannot_be_stored_does_not_delay_other_matches(ledger):
    class OutboxThatRefusesFirstJob(MemoryOutbox):
        def put(self, key, call):
            if call.job_key == first_job.job_key:
                raise InvalidInput("cannot be stored")
            super().put(key, call)

    ledger.add_provider(PROVIDER)
    first_job = ledger.request(CUSTOMERS[0])
    second_job = ledger.request(CUSTOMERS[1])
    outbox = OutboxThatRefusesFirstJob()
    service = meta_scheduler(ledger, outbox)

    service.tick()

    (match,) = open_calls(outbox)
    assert match.job_key == second_job.job_key
    assert service.pending()[first_job.id] == "cannot be stored"
