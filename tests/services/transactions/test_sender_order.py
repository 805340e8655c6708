# SPDX-License-Identifier: Apache-2.0
"""Tests of the order in which the claim, the start and the settlement of a job are mined.

The start is sent on the newest block, so a reorg can remove its claim.
"""

from __future__ import annotations

import pytest
from tests.services.transactions.sender_setup import CUSTOMER, PROVIDER, WalletSender, settlement

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs, SetRunning
from gridstead.domain.transactions.outbox import SendState

CONFIRMATIONS = 4


@pytest.fixture
def wallet_sender():
    return WalletSender()


@pytest.mark.parametrize("reorg_depth", [0, 1, 2])
def test_start_and_settlement_keep_their_order_over_restarts_and_replacements(
    wallet_sender, reorg_depth
):
    wallet_sender.claim_and_put_start()
    wallet_sender.sender.tick()
    wallet_sender.outbox.put("end", settlement(wallet_sender.ledger.job(1)))
    wallet_sender.sender.tick()
    wallet_sender.restart(replace_after_s=30)
    for _ in range(3):
        wallet_sender.sender.tick()
        wallet_sender.mine_empty_block()
        wallet_sender.clock.advance(31)
    entry_ids = [transaction.entry_ids for transaction in wallet_sender.stored_transactions()]
    assert entry_ids.count((1,)) == 3
    wallet_sender.ledger.mine()
    if reorg_depth:
        wallet_sender.ledger.reorg(reorg_depth)
    wallet_sender.restart()
    wallet_sender.tick_and_mine(4)

    assert wallet_sender.states() == [SendState.FINAL, SendState.FINAL]
    assert wallet_sender.ledger.job(1).state is JobState.FINISHED


@pytest.fixture
def start_after_claim(wallet_sender):
    """Mine a job's claim and then its start, two transactions of the sender."""
    wallet_sender.restart(confirmations=CONFIRMATIONS)
    wallet_sender.ledger.mine(2 * CONFIRMATIONS)
    job = wallet_sender.ledger.request(CUSTOMER)
    wallet_sender.ledger.match(job.id.number, PROVIDER)
    wallet_sender.outbox.put("claim", ClaimJobs(limit=1))
    wallet_sender.tick_and_mine()
    wallet_sender.outbox.put("running", SetRunning(job_key=job.job_key, started_at=1))
    wallet_sender.tick_and_mine()
    assert wallet_sender.ledger.job(job.id.number).state is JobState.RUNNING
    return job


@pytest.mark.parametrize("is_restarted", [False, True])
def test_claim_and_start_that_a_reorg_removes_are_mined_again_in_order(
    wallet_sender, start_after_claim, is_restarted
):
    wallet_sender.ledger.reorg(2)
    wallet_sender.clock.advance(10)  # until a transaction is sent again
    if is_restarted:
        wallet_sender.restart(confirmations=CONFIRMATIONS)
    wallet_sender.tick_and_mine(CONFIRMATIONS + 2)

    assert wallet_sender.states() == [SendState.FINAL, SendState.FINAL]
    assert wallet_sender.ledger.job(start_after_claim.id.number).state is JobState.RUNNING
    assert len(wallet_sender.stored_transactions()) == 2


def test_start_without_its_claim_is_sent_once_and_rejected_when_its_block_is_final(wallet_sender):
    wallet_sender.restart(confirmations=CONFIRMATIONS)
    job = wallet_sender.ledger.request(CUSTOMER)
    wallet_sender.ledger.match(job.id.number, PROVIDER)
    wallet_sender.outbox.put("running", SetRunning(job_key=job.job_key, started_at=1))
    states = []
    for _ in range(CONFIRMATIONS + 2):
        wallet_sender.tick_and_mine()
        states += wallet_sender.states()

    mined_states = [SendState.MINED] * CONFIRMATIONS
    assert states == [SendState.SENT, *mined_states, SendState.REJECTED]
    assert len(wallet_sender.account.sent) == 1
    assert wallet_sender.ledger.job(job.id.number).state is JobState.META_SCHEDULED
