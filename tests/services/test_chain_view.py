# SPDX-License-Identifier: Apache-2.0
"""What the sender believes of the chain, and what it asks for again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.services.sender_setup import WalletSender, settlement

from gridstead.domain.sending import SendState


@pytest.fixture
def wallet_sender():
    return WalletSender()


@pytest.mark.parametrize("resend_after_s", [1, 100])
def test_node_that_runs_ahead_of_its_newest_block_costs_no_call(wallet_sender, resend_after_s):
    """Some nodes answer for their newest block while they write the next one into the same state."""
    wallet_sender.policy(batch=2, resend_after_s=resend_after_s)
    jobs = [wallet_sender.ledger.run(wallet_sender.claimed_job().id.number) for _ in range(12)]
    for turn, job in enumerate(jobs):
        wallet_sender.outbox.put(f"end:{job.job_key}", settlement(job))
        wallet_sender.ledger.hasty = turn % 3 > 0
        wallet_sender.sender.tick()
        wallet_sender.clock.advance(1)
        if turn % 3 == 2:
            wallet_sender.ledger.mine()
    wallet_sender.ledger.hasty = False
    wallet_sender.tick_and_mine(6)

    assert wallet_sender.states() == [SendState.FINAL] * 12
    assert all(not one.withdrawn for one in wallet_sender.signed(closed=True))
    carried = sorted(
        entry_id for one in wallet_sender.signed(closed=True) for entry_id in one.entry_ids
    )
    assert carried == list(range(1, 13))


def test_call_that_the_newest_block_made_pointless_is_dropped_a_block_later(wallet_sender):
    job = wallet_sender.ledger.run(wallet_sender.claimed_job().id.number)
    wallet_sender.outbox.put("end", settlement(job))
    wallet_sender.ledger.settle(job.id.number)

    wallet_sender.sender.tick()
    assert (wallet_sender.states(), wallet_sender.account.sent) == ([SendState.QUEUED], [])
    wallet_sender.ledger.mine()
    wallet_sender.sender.tick()

    assert (wallet_sender.states(), wallet_sender.account.sent) == ([SendState.REJECTED], [])


def test_receipt_is_asked_for_once_as_long_as_the_chain_stands(wallet_sender):
    wallet_sender.policy(confirmations=5)
    wallet_sender.put_running()
    asked = []
    receipts = wallet_sender.account.receipts
    wallet_sender.account.receipts = lambda hashes: receipts(
        asked.append(list(hashes)) or asked[-1]
    )
    wallet_sender.tick_and_mine(4)
    assert [len(hashes) for hashes in asked] == [1]
    assert wallet_sender.states() == [SendState.MINED]

    wallet_sender.ledger.reorg(2)
    wallet_sender.tick_and_mine(5)

    assert [len(hashes) for hashes in asked] == [1, 1]
    assert wallet_sender.states() == [SendState.FINAL]


def test_job_of_a_call_that_waits_is_looked_up_when_the_call_is_sent_again_or_the_chain_changed(
    wallet_sender,
):
    wallet_sender.put_running()
    looked = []
    jobs = wallet_sender.ledger.jobs
    wallet_sender.ledger.jobs = lambda numbers, *, at_block: jobs(
        looked.append(at_block.number) or numbers, at_block=at_block
    )
    wallet_sender.sender.tick()
    for _ in range(3):
        wallet_sender.clock.advance(2)
        wallet_sender.mine_nothing()
        wallet_sender.sender.tick()
    assert len(looked) == 1

    wallet_sender.clock.advance(5)
    wallet_sender.sender.tick()
    assert len(looked) == 2
    wallet_sender.ledger.pool, pool = {}, wallet_sender.ledger.pool
    wallet_sender.ledger.reorg(1)
    wallet_sender.ledger.pool = pool
    wallet_sender.sender.tick()
    assert len(looked) == 3


def test_mined_call_is_not_taken_for_a_strangers_while_the_server_asked_has_no_receipt(
    wallet_sender,
):
    wallet_sender.policy(confirmations=5, resend_after_s=1)
    wallet_sender.put_running()
    wallet_sender.tick_and_mine()
    receipts = wallet_sender.account.receipts
    wallet_sender.account.receipts = lambda _hashes: {}
    for _ in range(3):
        wallet_sender.clock.advance(60)
        wallet_sender.tick_and_mine()
    assert wallet_sender.states() == [SendState.SENT]
    wallet_sender.account.receipts = receipts
    wallet_sender.tick_and_mine(6)

    assert wallet_sender.states() == [SendState.FINAL]
    assert (len(wallet_sender.signed(closed=True)), len(wallet_sender.account.sent)) == (1, 1)


def test_later_receipt_does_not_speak_for_an_earlier_that_is_hidden(wallet_sender):
    """Receipts are asked for in portions, which may go to several servers."""
    wallet_sender.policy(confirmations=5, batch=1)
    wallet_sender.put_running()
    wallet_sender.put_running()
    wallet_sender.tick_and_mine()
    earlier, later = wallet_sender.signed()
    receipts = wallet_sender.account.receipts
    wallet_sender.account.receipts = lambda hashes: {
        tx: one for tx, one in receipts(hashes).items() if tx != earlier.hash
    }
    wallet_sender.tick_and_mine(3)
    assert (later.nonce, wallet_sender.states()[0]) == (earlier.nonce + 1, SendState.SENT)
    wallet_sender.account.receipts = receipts
    wallet_sender.tick_and_mine(6)

    assert wallet_sender.states() == [SendState.FINAL, SendState.FINAL]
    assert len(wallet_sender.account.sent) == 2


def test_receipt_of_another_fork_is_not_believed(wallet_sender):
    wallet_sender.policy(confirmations=5)
    wallet_sender.put_running()
    wallet_sender.tick_and_mine()
    receipts = wallet_sender.account.receipts
    of_a_fork = {"block_hash": "0xf0"}
    wallet_sender.account.receipts = lambda hashes: {
        tx: replace(one, **of_a_fork) for tx, one in receipts(hashes).items()
    }
    wallet_sender.tick_and_mine(3)

    assert wallet_sender.states() == [SendState.SENT]


def test_receipt_is_looked_at_once_more_before_it_is_final(wallet_sender):
    """The server that gave it may have stood on another fork all the time, and so may the one that
    confirmed it.
    """
    wallet_sender.policy(confirmations=3)
    wallet_sender.put_running()
    wallet_sender.tick_and_mine()
    wallet_sender.ledger.mine()
    receipts = wallet_sender.account.receipts
    (found,) = receipts([wallet_sender.signed()[0].hash]).values()
    mined, blocks = wallet_sender.ledger.block(found.block), wallet_sender.ledger.block
    forked = replace(mined, hash="0xf0")
    wallet_sender.account.receipts = lambda hashes: {
        tx: replace(one, block_hash="0xf0") for tx, one in receipts(hashes).items()
    }
    wallet_sender.ledger.block = lambda number: forked if number == mined.number else blocks(number)
    wallet_sender.sender.tick()
    assert wallet_sender.states() == [SendState.MINED]
    wallet_sender.ledger.block = blocks
    wallet_sender.ledger.mine(3)
    wallet_sender.sender.tick()

    assert wallet_sender.states() != [SendState.FINAL]
