# SPDX-License-Identifier: Apache-2.0
"""What the sender's chain view trusts, and what it reads again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.services.transactions.sender_setup import WalletSender, settlement

from gridstead.domain.transactions.outbox import SendState

FORK_HASH = "0xf0"


def forked(receipts):
    """Return receipts as a server on another fork returns them."""
    return {tx: replace(receipt, block_hash=FORK_HASH) for tx, receipt in receipts.items()}


@pytest.fixture
def wallet_sender():
    return WalletSender()


@pytest.mark.parametrize("resend_after_s", [1, 100])
def test_no_call_is_lost_if_the_node_is_ahead_of_its_newest_block(wallet_sender, resend_after_s):
    """Some nodes answer for their newest block while they write the next one to the same state."""
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
    entry_ids = []
    for transaction in wallet_sender.signed(closed=True):
        assert not transaction.withdrawn
        entry_ids += transaction.entry_ids
    assert sorted(entry_ids) == list(range(1, 13))


def test_call_that_the_newest_block_made_obsolete_is_rejected_a_block_later(wallet_sender):
    job = wallet_sender.ledger.run(wallet_sender.claimed_job().id.number)
    wallet_sender.outbox.put("end", settlement(job))
    wallet_sender.ledger.settle(job.id.number)

    wallet_sender.sender.tick()
    assert (wallet_sender.states(), wallet_sender.account.sent) == ([SendState.QUEUED], [])
    wallet_sender.ledger.mine()
    wallet_sender.sender.tick()

    assert (wallet_sender.states(), wallet_sender.account.sent) == ([SendState.REJECTED], [])


def test_receipt_is_read_once_unless_there_is_a_reorg(wallet_sender):
    wallet_sender.policy(confirmations=5)
    wallet_sender.put_running()
    requests = []
    receipts = wallet_sender.account.receipts

    def recording_receipts(hashes):
        requests.append(list(hashes))
        return receipts(requests[-1])

    wallet_sender.account.receipts = recording_receipts
    wallet_sender.tick_and_mine(4)
    assert [len(hashes) for hashes in requests] == [1]
    assert wallet_sender.states() == [SendState.MINED]

    wallet_sender.ledger.reorg(2)
    wallet_sender.tick_and_mine(5)

    assert [len(hashes) for hashes in requests] == [1, 1]
    assert wallet_sender.states() == [SendState.FINAL]


def test_job_of_a_waiting_call_is_read_before_a_resend_and_after_a_reorg(wallet_sender):
    wallet_sender.put_running()
    reads = []
    jobs = wallet_sender.ledger.jobs

    def recording_jobs(job_ids, *, at_block):
        reads.append(at_block.number)
        return jobs(job_ids, at_block=at_block)

    wallet_sender.ledger.jobs = recording_jobs
    wallet_sender.sender.tick()
    for _ in range(3):
        wallet_sender.clock.advance(2)
        wallet_sender.mine_nothing()
        wallet_sender.sender.tick()
    assert len(reads) == 1

    wallet_sender.clock.advance(5)
    wallet_sender.sender.tick()
    assert len(reads) == 2
    wallet_sender.ledger.pool, pool = {}, wallet_sender.ledger.pool
    wallet_sender.ledger.reorg(1)
    wallet_sender.ledger.pool = pool
    wallet_sender.sender.tick()
    assert len(reads) == 3


def test_mined_call_is_not_sent_again_while_a_server_hides_its_receipt(wallet_sender):
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


def test_receipt_of_a_nonce_is_no_evidence_for_a_lower_nonce(wallet_sender):
    """Receipts are requested in pages, and different servers may answer them."""
    wallet_sender.policy(confirmations=5, batch=1)
    wallet_sender.put_running()
    wallet_sender.put_running()
    wallet_sender.tick_and_mine()
    earlier, later = wallet_sender.signed()
    receipts = wallet_sender.account.receipts
    wallet_sender.account.receipts = lambda hashes: receipts(set(hashes) - {earlier.hash})
    wallet_sender.tick_and_mine(3)
    assert (later.nonce, wallet_sender.states()[0]) == (earlier.nonce + 1, SendState.SENT)
    wallet_sender.account.receipts = receipts
    wallet_sender.tick_and_mine(6)

    assert wallet_sender.states() == [SendState.FINAL, SendState.FINAL]
    assert len(wallet_sender.account.sent) == 2


def test_receipt_of_another_fork_is_ignored(wallet_sender):
    wallet_sender.policy(confirmations=5)
    wallet_sender.put_running()
    wallet_sender.tick_and_mine()
    receipts = wallet_sender.account.receipts
    wallet_sender.account.receipts = lambda hashes: forked(receipts(hashes))
    wallet_sender.tick_and_mine(3)

    assert wallet_sender.states() == [SendState.SENT]


def test_receipt_is_checked_once_more_before_it_is_final(wallet_sender):
    """The servers that returned and confirmed the receipt may have been on another fork."""
    wallet_sender.policy(confirmations=3)
    wallet_sender.put_running()
    wallet_sender.tick_and_mine()
    wallet_sender.ledger.mine()
    receipts = wallet_sender.account.receipts
    (receipt,) = receipts([wallet_sender.signed()[0].hash]).values()
    mined, block = wallet_sender.ledger.block(receipt.block), wallet_sender.ledger.block
    forked_block = replace(mined, hash=FORK_HASH)
    wallet_sender.account.receipts = lambda hashes: forked(receipts(hashes))
    wallet_sender.ledger.block = lambda number: (
        forked_block if number == mined.number else block(number)
    )
    wallet_sender.sender.tick()
    assert wallet_sender.states() == [SendState.MINED]
    wallet_sender.ledger.block = block
    wallet_sender.ledger.mine(3)
    wallet_sender.sender.tick()

    assert wallet_sender.states() != [SendState.FINAL]
