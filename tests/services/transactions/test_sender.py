# SPDX-License-Identifier: Apache-2.0
"""Tests of rare cases of the sender. tests/adapters/chain tests the common cases on anvil."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.services.transactions.sender_setup import PROVIDER, WalletSender

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs, Refuse, SetRunning
from gridstead.domain.transactions.outbox import SendState
from gridstead.errors import ChainUnavailable, ConfigError


@pytest.fixture
def wallet_sender():
    return WalletSender()


def test_empty_outbox_sends_nothing(wallet_sender):
    wallet_sender.sender.tick()

    assert wallet_sender.account.sent == []


def test_chain_without_a_first_block_is_unavailable(wallet_sender):
    wallet_sender.ledger.block = lambda _number: None

    with pytest.raises(ChainUnavailable, match="first block"):
        wallet_sender.sender.tick()


def test_nothing_is_sent_if_the_chain_is_reorganised_during_the_read(wallet_sender):
    wallet_sender.put_running()
    fees = wallet_sender.account.fees

    def fees_and_reorg():
        wallet_sender.ledger.reorg(1)
        return fees()

    wallet_sender.account.fees = fees_and_reorg
    with pytest.raises(ChainUnavailable, match="reorganised"):
        wallet_sender.sender.tick()

    assert wallet_sender.account.sent == []
    assert wallet_sender.states() == [SendState.QUEUED]


def test_call_that_would_revert_waits_while_another_transaction_is_pending(wallet_sender):
    """The call may depend on the pending transaction."""
    wallet_sender.put_running()
    wallet_sender.sender.tick()
    wallet_sender.account.reverts_claims = True
    wallet_sender.outbox.put("claim", ClaimJobs(limit=1))
    wallet_sender.sender.tick()
    assert wallet_sender.states() == [SendState.SENT, SendState.QUEUED]

    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(3)
    assert wallet_sender.states() == [SendState.FINAL, SendState.REJECTED]


def test_stuck_call_that_would_revert_now_is_replaced_by_an_empty_transaction(wallet_sender):
    wallet_sender.outbox.put("claim", ClaimJobs(limit=1))
    wallet_sender.sender.tick()
    wallet_sender.account.reverts_claims = True
    wallet_sender.mine_empty_block()
    wallet_sender.clock.advance(30)
    wallet_sender.sender.tick()
    stuck_transaction, empty_transaction = wallet_sender.account.sent
    assert (stuck_transaction.entry_ids, empty_transaction.entry_ids) == ((1,), ())

    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(3)

    assert wallet_sender.states() == [SendState.REJECTED]
    assert wallet_sender.ledger._state.nonces[PROVIDER] == 1


def test_unknown_transaction_in_the_pool_with_the_nonce_of_a_call_is_replaced(wallet_sender):
    """After a loss of the store, the node may still have a transaction that was signed before."""
    wallet_sender.put_running()
    send_unknown_transaction(wallet_sender)
    wallet_sender.sender.tick()
    assert wallet_sender.states() == [SendState.SENT]

    wallet_sender.sender.tick()
    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(2)

    assert wallet_sender.states() == [SendState.FINAL]
    assert wallet_sender.ledger.job(1).started_at > 0


def send_unknown_transaction(wallet_sender):
    """Send an empty transaction with nonce 0 that is not in the sender's store."""
    account = wallet_sender.account
    unknown_transaction = account.sign((), entry_ids=(), nonce=0, gas=1, fees=account.fees())
    account.send([unknown_transaction])


def test_no_call_is_lost_if_another_program_uses_its_nonce(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.sender.tick()
    wallet_sender.ledger.pool.clear()
    send_unknown_transaction(wallet_sender)
    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(4)

    assert wallet_sender.states() == [SendState.FINAL]
    assert wallet_sender.ledger._state.nonces[PROVIDER] == 2


def test_fees_are_not_raised_while_there_is_no_new_block(wallet_sender):
    wallet_sender.put_running()
    for _ in range(20):
        wallet_sender.sender.tick()
        wallet_sender.clock.advance(10)
    assert len(wallet_sender.sent_hashes()) == 1

    for _ in range(4):
        wallet_sender.mine_empty_block()
        wallet_sender.clock.advance(10)
        wallet_sender.sender.tick()
    assert len(wallet_sender.sent_hashes()) == 2


def test_transaction_that_the_node_refuses_is_split_in_halves(wallet_sender):
    wallet_sender.account.max_calls = 2
    for _ in range(9):
        wallet_sender.put_running()

    wallet_sender.tick_and_mine(8)

    assert wallet_sender.states() == [SendState.FINAL] * 9


@pytest.mark.parametrize("is_claim", [True, False], ids=["claim", "call about a job"])
def test_call_that_the_node_always_refuses_backs_off_exponentially(wallet_sender, is_claim):
    """A service puts a refused call into the outbox again at once.

    Each attempt costs an empty transaction for the unused nonce, so the sender backs off.
    """
    job = wallet_sender.claim_job()
    wallet_sender.account.max_calls = 0
    for block in range(100):
        if not wallet_sender.outbox.open_entries():
            if is_claim:
                wallet_sender.outbox.put(f"claim:{block}:0", ClaimJobs(limit=1))
            else:
                call = SetRunning(job_key=job.job_key, started_at=1)
                wallet_sender.outbox.put("running", call)
        wallet_sender.tick_and_mine()
        wallet_sender.clock.advance(6)

    stored_transactions = wallet_sender.stored_transactions()
    attempts = [transaction for transaction in stored_transactions if transaction.entry_ids]
    # The 100 blocks take 600 seconds. Each refusal doubles the backoff.
    assert 2 <= len(attempts) <= 5

    wallet_sender.account.max_calls = 50
    wallet_sender.clock.advance(3600)
    wallet_sender.tick_and_mine(3)
    assert wallet_sender.states()[-1] is SendState.FINAL


def test_call_that_the_node_refuses_does_not_delay_other_calls(wallet_sender):
    for _ in range(3):
        wallet_sender.put_running()
    wallet_sender.outbox.put("claim", ClaimJobs(limit=1))
    wallet_sender.account.max_calls = 0
    wallet_sender.tick_and_mine(3)
    assert wallet_sender.states() == [SendState.REJECTED] * 4
    reason = 'the node refused the transaction: "exceeds block gas limit"'
    for entry in wallet_sender.outbox.entries():
        assert entry.reason == reason

    wallet_sender.account.max_calls = 50
    wallet_sender.put_running()
    wallet_sender.tick_and_mine(4)

    assert wallet_sender.states()[-1] is SendState.FINAL
    assert wallet_sender.outbox.open_entries() == ()


def test_transactions_are_sent_later_if_the_pool_of_the_node_is_full(wallet_sender):
    wallet_sender.restart(max_batch_calls=1)
    for _ in range(6):
        wallet_sender.put_running()
    wallet_sender.account.pool_size = 4
    with pytest.raises(ChainUnavailable, match="txpool is full"):
        wallet_sender.sender.tick()
    is_sent = [transaction.sent_at is not None for transaction in wallet_sender.open_transactions()]
    assert is_sent == [True, True, True, True, False, False]

    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(4)

    assert wallet_sender.states() == [SendState.FINAL] * 6
    assert len(wallet_sender.stored_transactions()) == 6


def test_wallet_that_cannot_pay_for_all_transactions_at_once_pays_for_them_later(wallet_sender):
    wallet_sender.restart(max_batch_calls=1)
    for _ in range(3):
        wallet_sender.put_running()
    wallet_sender.account.payable_count = 2
    with pytest.raises(ChainUnavailable, match="insufficient funds"):
        wallet_sender.sender.tick()

    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(4)

    assert wallet_sender.states() == [SendState.FINAL] * 3


def test_wallet_that_cannot_pay_for_its_first_transaction_is_a_configuration_error(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.account.payable_count = 0

    with pytest.raises(ConfigError, match="cannot pay"):
        wallet_sender.sender.tick()

    assert wallet_sender.states() == [SendState.SENT]


def test_fees_of_replacements_stay_within_their_limit(wallet_sender):
    wallet_sender.put_running()
    for _ in range(60):
        wallet_sender.sender.tick()
        wallet_sender.mine_empty_block()
        wallet_sender.clock.advance(31)  # longer than replace_after_s, which is 30
    current_fees = wallet_sender.account.fees()
    offered_fees = [transaction.fees for transaction in wallet_sender.open_transactions()]
    for previous, following in pairwise(offered_fees):
        assert previous.max_fee <= following.max_fee
    last_fees = offered_fees[-1]
    assert 5 * current_fees.max_fee < last_fees.max_fee <= 10 * current_fees.max_fee
    assert 5 * current_fees.tip < last_fees.tip <= 10 * current_fees.tip

    wallet_sender.tick_and_mine(3)

    assert wallet_sender.states() == [SendState.FINAL]
    assert wallet_sender.ledger._state.nonces[PROVIDER] == 1


@pytest.mark.parametrize("was_accepted", [True, False])
def test_fees_of_a_transaction_are_raised_if_the_pool_of_the_node_stays_full(
    wallet_sender, was_accepted
):
    wallet_sender.put_running()
    if was_accepted:
        wallet_sender.sender.tick()
    wallet_sender.restart(replace_after_s=30, resend_after_s=1)
    wallet_sender.ledger.pool.clear()
    wallet_sender.account.pool_size = 0
    for _ in range(4):
        wallet_sender.clock.advance(20)
        wallet_sender.mine_empty_block()
        with pytest.raises(ChainUnavailable, match="could not send"):
            wallet_sender.sender.tick()

    assert len(wallet_sender.max_fees()) > 1


def test_sent_transaction_is_not_withdrawn_if_its_replacement_is_refused(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.sender.tick()
    wallet_sender.account.max_calls = 0
    wallet_sender.clock.advance(20)
    wallet_sender.mine_empty_block()
    wallet_sender.sender.tick()
    wallet_sender.clock.advance(20)
    wallet_sender.mine_empty_block()
    wallet_sender.sender.tick()

    assert len(wallet_sender.open_transactions()) > 1
    for transaction in wallet_sender.open_transactions():
        assert not transaction.withdrawn
    assert wallet_sender.states() == [SendState.SENT]


@pytest.mark.parametrize("max_calls", [1, 2])
def test_calls_are_sent_in_smaller_transactions_if_the_node_refuses_a_lost_transaction(
    wallet_sender, max_calls
):
    """The node accepts a transaction, loses it in a restart, and then refuses its size."""
    for _ in range(4):
        wallet_sender.put_running()
    wallet_sender.sender.tick()
    assert wallet_sender.states() == [SendState.SENT] * 4
    wallet_sender.ledger.pool.clear()
    wallet_sender.account.max_calls = max_calls

    for _ in range(20):
        wallet_sender.clock.advance(10)
        wallet_sender.tick_and_mine()

    assert wallet_sender.states() == [SendState.FINAL] * 4


def test_lost_transaction_is_sent_again_although_the_clock_was_set_back(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.sender.tick()
    wallet_sender.ledger.pool.clear()
    wallet_sender.clock.advance(-7200)
    for _ in range(2):
        wallet_sender.sender.tick()
        wallet_sender.clock.advance(10)
    wallet_sender.tick_and_mine(3)

    assert wallet_sender.states() == [SendState.FINAL]


def test_fees_are_raised_although_the_clock_was_set_back(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.sender.tick()
    wallet_sender.clock.advance(-7200)
    for _ in range(5):
        wallet_sender.mine_empty_block()
        wallet_sender.sender.tick()
        wallet_sender.clock.advance(10)

    assert len(wallet_sender.max_fees()) > 1


def test_backoff_of_a_refused_call_is_not_longer_after_the_clock_was_set_back(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.account.max_calls = 0
    wallet_sender.tick_and_mine(3)
    assert wallet_sender.states() == [SendState.REJECTED]

    wallet_sender.account.max_calls = 50
    wallet_sender.clock.advance(-7200)
    wallet_sender.outbox.put("run:1", wallet_sender.outbox.entries()[0].call)
    for _ in range(10):
        wallet_sender.tick_and_mine()
        wallet_sender.clock.advance(10)

    assert wallet_sender.states()[-1] is SendState.FINAL


@pytest.mark.parametrize("withdrawn_is_mined", [False, True])
def test_no_call_is_made_twice_if_a_withdrawn_transaction_is_mined(
    wallet_sender, withdrawn_is_mined
):
    """A call has become invalid, so the sender withdraws its transaction, which the node has.

    The sender replaces the transaction by an empty one. The next block may contain either of them.
    """
    wallet_sender.restart(confirmations=3)
    ledger = wallet_sender.ledger
    first_job, second_job = wallet_sender.claim_job(), wallet_sender.claim_job()
    wallet_sender.outbox.put("refuse:1", Refuse(job_key=first_job.job_key))
    wallet_sender.outbox.put("refuse:2", Refuse(job_key=second_job.job_key))
    ledger.mine()
    wallet_sender.sender.tick()
    # Make a reorg, after which the sender reads the jobs of pending calls again. Keep the pool.
    pool_with_withdrawn, ledger.pool = ledger.pool, {}
    ledger.reorg(1)
    ledger.pool = dict(pool_with_withdrawn)
    jobs = ledger.jobs

    # A call is invalid if its job does not exist. Hide the job of the first call.
    def jobs_without_first(job_ids, *, at_block):
        return jobs(set(job_ids) - {first_job.id}, at_block=at_block)

    ledger.jobs = jobs_without_first
    wallet_sender.sender.tick()
    ledger.jobs = jobs
    assert wallet_sender.states() == [SendState.REJECTED, SendState.SENT]
    if withdrawn_is_mined:
        ledger.pool |= pool_with_withdrawn
    ledger.mine()
    wallet_sender.tick_and_mine(6)

    assert wallet_sender.states() == [SendState.REJECTED, SendState.FINAL]
    state_of_first = JobState.PENDING if withdrawn_is_mined else JobState.SCHEDULED
    assert ledger.job(first_job.id.number).state is state_of_first
    assert ledger.job(second_job.id.number).state is JobState.PENDING
    assert wallet_sender.open_transactions() == []
