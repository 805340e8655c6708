# SPDX-License-Identifier: Apache-2.0
"""What the sender believes of the chain, and what it asks for again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.services.office import Office, settlement

from gridstead.domain.sending import SendState


@pytest.fixture
def office():
    return Office()


@pytest.mark.parametrize("resend_after_s", [1, 100])
def test_node_that_runs_ahead_of_its_newest_block_costs_no_call(office, resend_after_s):
    """Some nodes answer for their newest block while they write the next one into the same state."""
    office.policy(batch=2, resend_after_s=resend_after_s)
    jobs = [office.ledger.run(office.claimed_job().id.number) for _ in range(12)]
    for turn, job in enumerate(jobs):
        office.outbox.put(f"end:{job.proof}", settlement(job))
        office.ledger.hasty = turn % 3 > 0
        office.sender.tick()
        office.clock.advance(1)
        if turn % 3 == 2:
            office.ledger.mine()
    office.ledger.hasty = False
    office.tick_and_mine(6)

    assert office.states() == [SendState.FINAL] * 12
    assert all(not one.withdrawn for one in office.signed(closed=True))
    carried = sorted(entry_id for one in office.signed(closed=True) for entry_id in one.entry_ids)
    assert carried == list(range(1, 13))


def test_call_that_the_newest_block_made_pointless_is_dropped_a_block_later(office):
    job = office.ledger.run(office.claimed_job().id.number)
    office.outbox.put("end", settlement(job))
    office.ledger.settle(job.id.number)

    office.sender.tick()
    assert (office.states(), office.account.sent) == ([SendState.QUEUED], [])
    office.ledger.mine()
    office.sender.tick()

    assert (office.states(), office.account.sent) == ([SendState.REJECTED], [])


def test_receipt_is_asked_for_once_as_long_as_the_chain_stands(office):
    office.policy(confirmations=5)
    office.put_running()
    asked = []
    receipts = office.account.receipts
    office.account.receipts = lambda hashes: receipts(asked.append(list(hashes)) or asked[-1])
    office.tick_and_mine(4)
    assert [len(hashes) for hashes in asked] == [1]
    assert office.states() == [SendState.MINED]

    office.ledger.reorg(2)
    office.tick_and_mine(5)

    assert [len(hashes) for hashes in asked] == [1, 1]
    assert office.states() == [SendState.FINAL]


def test_job_of_a_call_that_waits_is_looked_up_when_the_call_is_sent_again_or_the_chain_changed(office):
    office.put_running()
    looked = []
    jobs = office.ledger.jobs
    office.ledger.jobs = lambda numbers, *, at: jobs(looked.append(at.number) or numbers, at=at)
    office.sender.tick()
    for _ in range(3):
        office.clock.advance(2)
        office.mine_nothing()
        office.sender.tick()
    assert len(looked) == 1

    office.clock.advance(5)
    office.sender.tick()
    assert len(looked) == 2
    office.ledger.pool, pool = {}, office.ledger.pool
    office.ledger.reorg(1)
    office.ledger.pool = pool
    office.sender.tick()
    assert len(looked) == 3


def test_mined_call_is_not_taken_for_a_strangers_while_the_server_asked_has_no_receipt(office):
    office.policy(confirmations=5, resend_after_s=1)
    office.put_running()
    office.tick_and_mine()
    receipts = office.account.receipts
    office.account.receipts = lambda _hashes: {}
    for _ in range(3):
        office.clock.advance(60)
        office.tick_and_mine()
    assert office.states() == [SendState.SENT]
    office.account.receipts = receipts
    office.tick_and_mine(6)

    assert office.states() == [SendState.FINAL]
    assert (len(office.signed(closed=True)), len(office.account.sent)) == (1, 1)


def test_later_receipt_does_not_speak_for_an_earlier_that_is_hidden(office):
    """Receipts are asked for in portions, which may go to several servers."""
    office.policy(confirmations=5, batch=1)
    office.put_running()
    office.put_running()
    office.tick_and_mine()
    earlier, later = office.signed()
    receipts = office.account.receipts
    office.account.receipts = lambda hashes: {tx: one for tx, one in receipts(hashes).items() if tx != earlier.hash}
    office.tick_and_mine(3)
    assert (later.nonce, office.states()[0]) == (earlier.nonce + 1, SendState.SENT)
    office.account.receipts = receipts
    office.tick_and_mine(6)

    assert office.states() == [SendState.FINAL, SendState.FINAL]
    assert len(office.account.sent) == 2


def test_receipt_of_another_fork_is_not_believed(office):
    office.policy(confirmations=5)
    office.put_running()
    office.tick_and_mine()
    receipts = office.account.receipts
    of_a_fork = {"block_hash": "0xf0"}
    office.account.receipts = lambda hashes: {tx: replace(one, **of_a_fork) for tx, one in receipts(hashes).items()}
    office.tick_and_mine(3)

    assert office.states() == [SendState.SENT]


def test_receipt_is_looked_at_once_more_before_it_is_final(office):
    """The server that gave it may have stood on another fork all the time, and so may the one that confirmed it."""
    office.policy(confirmations=3)
    office.put_running()
    office.tick_and_mine()
    office.ledger.mine()
    receipts = office.account.receipts
    (found,) = receipts([office.signed()[0].hash]).values()
    mined, blocks = office.ledger.block(found.block), office.ledger.block
    forked = replace(mined, hash="0xf0")
    office.account.receipts = lambda hashes: {
        tx: replace(one, block_hash="0xf0") for tx, one in receipts(hashes).items()
    }
    office.ledger.block = lambda number: forked if number == mined.number else blocks(number)
    office.sender.tick()
    assert office.states() == [SendState.MINED]
    office.ledger.block = blocks
    office.ledger.mine(3)
    office.sender.tick()

    assert office.states() != [SendState.FINAL]
