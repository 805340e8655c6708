# SPDX-License-Identifier: Apache-2.0
"""Tests of the decision log that the meta-scheduler writes."""

from __future__ import annotations

import json

import pytest
from tests.fakes.ledger import FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor, MemoryDecisionStore, MemoryOutbox

from gridstead.adapters.chain.wallet import recover, wallet_of
from gridstead.domain.matching.decision_log import verify
from gridstead.domain.matching.decisions import Rules
from gridstead.errors import Transient
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.decision_log import DecisionLog
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches

PROVIDER = "0x" + "11" * 20
CUSTOMER = "0x" + "33" * 20
WALLET = wallet_of((7).to_bytes(32))
RULES = Rules(max_matches=2)


@pytest.fixture
def ledger():
    fake = FakeLedger(FakeClock())
    fake.add_provider(PROVIDER)
    return fake


@pytest.fixture
def store():
    return MemoryDecisionStore(MemoryOutbox())


def start(ledger, store):
    return MetaScheduler(
        ledger,
        Follower(ledger, MemoryCursor(), confirmations=2),
        store.outbox,
        confirmations=2,
        skipped_matches=SkippedMatches(ledger.clock),
        rules=RULES,
        decision_log=DecisionLog(store, RULES, sign=WALLET.sign_text),
    )


def fields_of(store):
    return [json.loads(record.text) for record in store.stored]


def test_decision_with_matches_is_logged(ledger, store):
    jobs = [ledger.request(CUSTOMER) for _ in range(2)]
    head = ledger.head()

    start(ledger, store).tick()

    (fields,) = fields_of(store)
    assert fields["block"] == {
        "hash": head.hash,
        "number": head.number,
        "timestamp": head.timestamp,
    }
    assert [match["job"] for match in fields["matches"]] == [str(job.job_key) for job in jobs]
    assert {match["provider"] for match in fields["matches"]} == {PROVIDER}
    assert fields["rules"]["max_matches"] == 2


def test_decision_without_matches_is_not_logged(ledger, store):
    service = start(ledger, store)
    service.tick()
    ledger.request(CUSTOMER)
    ledger.ban(PROVIDER)

    service.tick()

    assert store.stored == []


def test_restarted_meta_scheduler_continues_the_log(ledger, store):
    for _ in range(3):
        ledger.request(CUSTOMER)
        start(ledger, store).tick()

    summary = verify(store.stored, signer_of=recover)

    assert (summary.record_count, summary.match_count) == (3, 3)
    assert summary.signers == {WALLET.address}


def test_match_that_cannot_be_stored_is_not_logged(ledger, store):
    class FullStore(MemoryDecisionStore):
        def append(self, record, calls):
            raise Transient("the disk is full")

    job = ledger.request(CUSTOMER)
    full_store = FullStore(store.outbox)
    service = start(ledger, full_store)

    service.tick()

    assert full_store.stored == []
    assert store.outbox.open_entries() == ()
    assert service.pending()[job.id] == "the disk is full"
