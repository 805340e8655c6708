# SPDX-License-Identifier: Apache-2.0
"""The sender's chain view: which answers of the node are trusted, and which are read again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.services.transactions.sender_setup import WalletSender, settlement

from gridstead.domain.transactions.outbox import SendState

FORK_HASH = "0xf0"


def forked(receipts):
    """Return the receipts with the block hash of a fork that the sender does not follow."""
    return {tx: replace(receipt, block_hash=FORK_HASH) for tx, receipt in receipts.items()}


@pytest.fixture
def wallet_sender():
    return WalletSender()


@pytest.mark.parametrize("resend_after_s", [1, 100])
def test_no_call_is_lost_if_the_node_returns_the_state_of_the_next_block(
    wallet_sender, resend_after_s
):
    """A node may return the state of the next block before it reports the number of this block."""
    wallet_sender.restart(max_batch_calls=2, resend_after_s=resend_after_s)
    jobs = [wallet_sender.run_job() for _ in range(12)]
    for index, job in enumerate(jobs):
        # The sender runs three ticks per block. In the second and third tick, the node answers with
        # the state of the next block.
        tick_of_block = index % 3
        wallet_sender.ledger.is_hasty = tick_of_block > 0
        wallet_sender.outbox.put(f"end:{job.job_key}", settlement(job))
        wallet_sender.sender.tick()
        wallet_sender.clock.advance(1)
        if tick_of_block == 2:
            wallet_sender.ledger.mine()
    wallet_sender.ledger.is_hasty = False
    wallet_sender.tick_and_mine(6)

    assert wallet_sender.states() == [SendState.FINAL] * 12
    entry_ids = []
    for transaction in wallet_sender.stored_transactions():
        assert not transaction.withdrawn
        entry_ids += transaction.entry_ids
    assert sorted(entry_ids) == list(range(1, 13))


def test_call_that_the_newest_block_made_obsolete_is_rejected_one_block_later(wallet_sender):
    job = wallet_sender.run_job()
    wallet_sender.outbox.put("end", settlement(job))
    wallet_sender.ledger.settle(job.id.number)

    wallet_sender.sender.tick()
    assert wallet_sender.states() == [SendState.QUEUED]
    wallet_sender.ledger.mine()
    wallet_sender.sender.tick()

    assert wallet_sender.states() == [SendState.REJECTED]
    assert wallet_sender.account.sent == []


def test_receipt_is_read_again_only_after_a_reorg(wallet_sender):
    wallet_sender.restart(confirmations=5)
    wallet_sender.put_running()
    request_sizes = []
    receipts = wallet_sender.account.receipts

    def recording_receipts(hashes):
        hash_list = list(hashes)
        request_sizes.append(len(hash_list))
        return receipts(hash_list)

    wallet_sender.account.receipts = recording_receipts
    wallet_sender.tick_and_mine(4)
    assert request_sizes == [1]
    assert wallet_sender.states() == [SendState.MINED]

    wallet_sender.ledger.reorg(2)
    wallet_sender.tick_and_mine(5)

    assert request_sizes == [1, 1]
    assert wallet_sender.states() == [SendState.FINAL]


def test_job_of_a_pending_call_is_read_before_a_resend_and_after_a_reorg(wallet_sender):
    wallet_sender.put_running()
    read_blocks = []
    jobs = wallet_sender.ledger.jobs

    def recording_jobs(job_ids, *, at_block):
        read_blocks.append(at_block.number)
        return jobs(job_ids, at_block=at_block)

    wallet_sender.ledger.jobs = recording_jobs
    wallet_sender.sender.tick()
    for _ in range(3):
        wallet_sender.clock.advance(2)
        wallet_sender.mine_empty_block()
        wallet_sender.sender.tick()
    assert len(read_blocks) == 1

    # 11 seconds after it was sent, the transaction is sent again (resend_after_s is 10).
    wallet_sender.clock.advance(5)
    wallet_sender.sender.tick()
    assert len(read_blocks) == 2
    pool, wallet_sender.ledger.pool = wallet_sender.ledger.pool, {}
    wallet_sender.ledger.reorg(1)
    wallet_sender.ledger.pool = pool
    wallet_sender.sender.tick()
    assert len(read_blocks) == 3


def test_mined_call_is_not_sent_again_while_a_server_hides_its_receipt(wallet_sender):
    wallet_sender.restart(confirmations=5, resend_after_s=1)
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
    assert len(wallet_sender.stored_transactions()) == 1
    assert len(wallet_sender.account.sent) == 1


def test_a_receipt_for_a_nonce_does_not_close_a_lower_nonce(wallet_sender):
    """Receipts are requested in pages. Each page may be answered by a different server."""
    wallet_sender.restart(confirmations=5, max_batch_calls=1)
    wallet_sender.put_running()
    wallet_sender.put_running()
    wallet_sender.tick_and_mine()
    earlier_transaction, later_transaction = wallet_sender.open_transactions()
    receipts = wallet_sender.account.receipts
    assert later_transaction.nonce == earlier_transaction.nonce + 1
    wallet_sender.account.receipts = lambda hashes: receipts(
        set(hashes) - {earlier_transaction.hash}
    )
    wallet_sender.tick_and_mine(3)
    assert wallet_sender.states()[0] is SendState.SENT
    wallet_sender.account.receipts = receipts
    wallet_sender.tick_and_mine(6)

    assert wallet_sender.states() == [SendState.FINAL, SendState.FINAL]
    assert len(wallet_sender.account.sent) == 2


def test_receipt_of_another_fork_is_ignored(wallet_sender):
    wallet_sender.restart(confirmations=5)
    wallet_sender.put_running()
    wallet_sender.tick_and_mine()
    receipts = wallet_sender.account.receipts
    wallet_sender.account.receipts = lambda hashes: forked(receipts(hashes))
    wallet_sender.tick_and_mine(3)

    assert wallet_sender.states() == [SendState.SENT]


def test_receipt_is_checked_once_more_before_it_is_final(wallet_sender):
    """The servers that returned and confirmed the receipt may have been on another fork."""
    wallet_sender.restart(confirmations=3)
    wallet_sender.put_running()
    wallet_sender.tick_and_mine()
    wallet_sender.ledger.mine()
    receipts, block = wallet_sender.account.receipts, wallet_sender.ledger.block
    (transaction,) = wallet_sender.open_transactions()
    (receipt,) = receipts([transaction.hash]).values()

    def block_of_fork(number):
        canonical = block(number)
        return replace(canonical, hash=FORK_HASH) if number == receipt.block else canonical

    wallet_sender.account.receipts = lambda hashes: forked(receipts(hashes))
    wallet_sender.ledger.block = block_of_fork
    wallet_sender.sender.tick()
    assert wallet_sender.states() == [SendState.MINED]
    wallet_sender.ledger.block = block
    wallet_sender.ledger.mine(3)
    wallet_sender.sender.tick()

    assert wallet_sender.states() == [SendState.SENT]
