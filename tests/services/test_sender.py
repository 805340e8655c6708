# SPDX-License-Identifier: Apache-2.0
"""The sender's rarer turns, on fakes; its common ways are shown on a real chain in
tests/adapters/chain.
"""

from __future__ import annotations

import pytest
from tests.services.sender_setup import PROVIDER, WalletSender

from gridstead.domain.calls import ClaimJobs, Refuse, SetRunning
from gridstead.domain.lifecycle import JobState
from gridstead.domain.sending import SendState
from gridstead.errors import ChainUnavailable, ConfigError


@pytest.fixture
def wallet_sender():
    return WalletSender()


def test_empty_outbox_needs_nothing_of_the_chain_but_its_name(wallet_sender):
    wallet_sender.sender.tick()

    assert wallet_sender.account.sent == []


def test_chain_without_a_first_block_is_waited_for(wallet_sender):
    wallet_sender.ledger.block = lambda _number: None

    with pytest.raises(ChainUnavailable, match="first block"):
        wallet_sender.sender.tick()


def test_nothing_is_decided_on_a_chain_that_changes_while_it_is_read(wallet_sender):
    wallet_sender.put_running()
    fees = wallet_sender.account.fees

    def reorganised_now():
        wallet_sender.ledger.reorg(1)
        return fees()

    wallet_sender.account.fees = reorganised_now
    with pytest.raises(ChainUnavailable, match="reorganised meanwhile"):
        wallet_sender.sender.tick()

    assert wallet_sender.account.sent == []
    assert wallet_sender.states() == [SendState.QUEUED]


def test_refused_call_waits_while_something_else_is_on_its_way(wallet_sender):
    """What waits to be mined may be what the call needs."""
    wallet_sender.put_running()
    wallet_sender.sender.tick()
    wallet_sender.account.refuses = True
    wallet_sender.outbox.put("claim", ClaimJobs(limit=1))
    wallet_sender.sender.tick()
    assert wallet_sender.states() == [SendState.SENT, SendState.QUEUED]

    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(3)
    assert wallet_sender.states() == [SendState.FINAL, SendState.REJECTED]


def test_stuck_call_that_would_be_refused_by_now_gives_its_nonce_away(wallet_sender):
    wallet_sender.outbox.put("claim", ClaimJobs(limit=1))
    wallet_sender.sender.tick()
    wallet_sender.account.refuses = True
    wallet_sender.mine_nothing()
    wallet_sender.clock.advance(30)
    wallet_sender.sender.tick()
    assert [one.entry_ids for one in wallet_sender.account.sent] == [(1,), ()]

    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(3)

    assert wallet_sender.states() == [SendState.REJECTED]
    assert wallet_sender.ledger._state.nonces[PROVIDER] == 1


def test_other_transaction_of_the_same_nonce_in_the_pool_is_outbid(wallet_sender):
    """As when the store was lost: the node still holds what an earlier life signed."""
    wallet_sender.put_running()
    rich = wallet_sender.account.sign(
        (), entry_ids=(), nonce=0, gas=1, fees=wallet_sender.account.fees()
    )
    wallet_sender.account.send([rich])
    wallet_sender.sender.tick()
    assert wallet_sender.states() == [SendState.SENT]

    wallet_sender.sender.tick()
    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(2)

    assert wallet_sender.states() == [SendState.FINAL]
    assert wallet_sender.ledger.job(1).started_at > 0


def test_nonce_that_another_program_used_costs_no_call(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.sender.tick()
    wallet_sender.ledger.pool.clear()
    wallet_sender.account.send(
        [
            wallet_sender.account.sign(
                (), entry_ids=(), nonce=0, gas=1, fees=wallet_sender.account.fees()
            )
        ]
    )
    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(4)

    assert wallet_sender.states() == [SendState.FINAL]
    assert wallet_sender.ledger._state.nonces[PROVIDER] == 2


def test_no_higher_offer_is_made_while_no_block_comes(wallet_sender):
    wallet_sender.put_running()
    for _ in range(20):
        wallet_sender.sender.tick()
        wallet_sender.clock.advance(10)
    assert len({one.hash for one in wallet_sender.account.sent}) == 1

    for _ in range(4):
        wallet_sender.mine_nothing()
        wallet_sender.clock.advance(10)
        wallet_sender.sender.tick()
    assert len({one.hash for one in wallet_sender.account.sent}) == 2


def test_transaction_that_the_node_refuses_is_cut_in_halves(wallet_sender):
    wallet_sender.account.most_calls = 2
    for _ in range(9):
        wallet_sender.put_running()

    wallet_sender.tick_and_mine(8)

    assert wallet_sender.states() == [SendState.FINAL] * 9


@pytest.mark.parametrize("key", ["claim:{}:0", "settle"])
def test_call_that_the_node_always_refuses_is_tried_ever_more_seldom(wallet_sender, key):
    """Who wants it asks again at once, and each try costs a transaction that does nothing."""
    job = wallet_sender.claimed_job()
    call = ClaimJobs(limit=1) if "claim" in key else SetRunning(job_key=job.job_key, started_at=1)
    wallet_sender.account.most_calls = 0
    for turn in range(100):
        if not wallet_sender.outbox.open_entries():
            wallet_sender.outbox.put(key.format(turn), call)
        wallet_sender.tick_and_mine()
        wallet_sender.clock.advance(6)

    assert 2 <= len([one for one in wallet_sender.signed(closed=True) if one.entry_ids]) <= 5

    wallet_sender.account.most_calls = 50
    wallet_sender.clock.advance(3600)
    wallet_sender.tick_and_mine(3)
    assert wallet_sender.states()[-1] is SendState.FINAL


def test_call_that_the_node_refuses_alone_holds_up_no_other(wallet_sender):
    for _ in range(3):
        wallet_sender.put_running()
    wallet_sender.outbox.put("claim", ClaimJobs(limit=1))
    wallet_sender.account.most_calls = 0
    wallet_sender.tick_and_mine(3)
    assert wallet_sender.states() == [SendState.REJECTED] * 4
    assert {entry.reason for entry in wallet_sender.outbox.entries()} == {
        'the node refused it: "exceeds block gas limit"'
    }

    wallet_sender.account.most_calls = 50
    wallet_sender.put_running()
    wallet_sender.tick_and_mine(4)

    assert wallet_sender.states()[-1] is SendState.FINAL
    assert wallet_sender.outbox.open_entries() == ()


def test_node_without_room_gets_the_rest_later(wallet_sender):
    wallet_sender.policy(batch=1)
    for _ in range(6):
        wallet_sender.put_running()
    wallet_sender.account.room = 4
    with pytest.raises(ChainUnavailable, match="txpool is full"):
        wallet_sender.sender.tick()
    assert [one.sent_at is not None for one in wallet_sender.signed()] == [True] * 4 + [False] * 2

    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(4)

    assert wallet_sender.states() == [SendState.FINAL] * 6
    assert len(wallet_sender.signed(closed=True)) == 6


def test_wallet_that_cannot_pay_for_all_that_waits_pays_for_it_in_turn(wallet_sender):
    wallet_sender.policy(batch=1)
    for _ in range(3):
        wallet_sender.put_running()
    wallet_sender.account.purse = 2
    with pytest.raises(ChainUnavailable, match="insufficient funds"):
        wallet_sender.sender.tick()

    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(4)

    assert wallet_sender.states() == [SendState.FINAL] * 3


def test_wallet_that_cannot_pay_for_the_first_that_waits_is_the_operators_matter(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.account.purse = 0

    with pytest.raises(ConfigError, match="cannot pay"):
        wallet_sender.sender.tick()

    assert wallet_sender.states() == [SendState.SENT]


def test_offers_stay_within_their_bound_however_long_it_takes(wallet_sender):
    wallet_sender.put_running()
    for _ in range(60):
        wallet_sender.sender.tick()
        wallet_sender.mine_nothing()
        wallet_sender.clock.advance(31)
    usual, offers = wallet_sender.account.fees(), [one.fees for one in wallet_sender.signed()]
    assert offers == sorted(offers, key=lambda fees: fees.max_fee)
    assert 5 * usual.max_fee < offers[-1].max_fee <= 10 * usual.max_fee
    assert 5 * usual.tip < offers[-1].tip <= 10 * usual.tip

    wallet_sender.tick_and_mine(3)

    assert wallet_sender.states() == [SendState.FINAL]
    assert wallet_sender.ledger._state.nonces[PROVIDER] == 1


@pytest.mark.parametrize("taken_before", [True, False])
def test_offer_of_what_a_node_has_no_room_for_is_raised(wallet_sender, taken_before):
    wallet_sender.put_running()
    if taken_before:
        wallet_sender.sender.tick()
    wallet_sender.policy(replace_after_s=30, resend_after_s=1)
    wallet_sender.ledger.pool, wallet_sender.account.room = {}, 0
    for _ in range(4):
        wallet_sender.clock.advance(20)
        wallet_sender.mine_nothing()
        with pytest.raises(ChainUnavailable, match="could not send"):
            wallet_sender.sender.tick()

    assert len({one.fees.max_fee for one in wallet_sender.signed()}) > 1


def test_nonce_is_kept_when_the_replacement_of_what_was_sent_is_refused(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.sender.tick()
    wallet_sender.account.most_calls = 0
    wallet_sender.clock.advance(20)
    wallet_sender.mine_nothing()
    wallet_sender.sender.tick()
    wallet_sender.clock.advance(20)
    wallet_sender.mine_nothing()
    wallet_sender.sender.tick()

    assert len(wallet_sender.signed()) > 1
    assert not any(one.withdrawn for one in wallet_sender.signed())
    assert wallet_sender.states() == [SendState.SENT]


def test_transaction_that_the_pool_lost_is_given_again_soon_after_the_clock_is_set_back(
    wallet_sender,
):
    wallet_sender.put_running()
    wallet_sender.sender.tick()
    wallet_sender.ledger.pool.clear()
    wallet_sender.clock.advance(-7200)
    for _ in range(2):
        wallet_sender.sender.tick()
        wallet_sender.clock.advance(10)
    wallet_sender.tick_and_mine(3)

    assert wallet_sender.states() == [SendState.FINAL]


def test_higher_offer_is_made_soon_after_the_clock_is_set_back(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.sender.tick()
    wallet_sender.clock.advance(-7200)
    for _ in range(5):
        wallet_sender.mine_nothing()
        wallet_sender.sender.tick()
        wallet_sender.clock.advance(10)

    assert len({one.fees.max_fee for one in wallet_sender.signed()}) > 1


def test_refused_call_rests_no_longer_for_a_clock_that_is_set_back(wallet_sender):
    wallet_sender.put_running()
    wallet_sender.account.most_calls = 0
    wallet_sender.tick_and_mine(3)
    assert wallet_sender.states() == [SendState.REJECTED]

    wallet_sender.account.most_calls = 50
    wallet_sender.clock.advance(-7200)
    wallet_sender.outbox.put("run:1", wallet_sender.outbox.entries()[0].call)
    for _ in range(10):
        wallet_sender.tick_and_mine()
        wallet_sender.clock.advance(10)

    assert wallet_sender.states()[-1] is SendState.FINAL


@pytest.mark.parametrize("old_is_mined", [False, True])
def test_withdrawn_transaction_may_be_mined_and_no_call_is_made_twice(wallet_sender, old_is_mined):
    """An objection to one call withdraws a transaction that the node has; who mines next may have
    it, or the filler.
    """
    wallet_sender.policy(confirmations=3)
    jobs = [wallet_sender.claimed_job() for _ in range(2)]
    for job in jobs:
        wallet_sender.outbox.put(f"refuse:{job.id.number}", Refuse(job_key=job.job_key))
    wallet_sender.ledger.mine()
    wallet_sender.sender.tick()
    sent, wallet_sender.ledger.pool = wallet_sender.ledger.pool, {}
    real = wallet_sender.ledger.jobs
    wallet_sender.ledger.reorg(1)
    wallet_sender.ledger.pool = dict(sent)
    wallet_sender.ledger.jobs = lambda numbers, *, at_block: real(
        [one for one in numbers if one != jobs[0].id.number], at_block=at_block
    )
    wallet_sender.sender.tick()
    wallet_sender.ledger.jobs = real
    assert wallet_sender.states() == [SendState.REJECTED, SendState.SENT]
    if old_is_mined:
        wallet_sender.ledger.pool |= sent
    wallet_sender.ledger.mine()
    wallet_sender.tick_and_mine(6)

    assert wallet_sender.states() == [SendState.REJECTED, SendState.FINAL]
    assert [wallet_sender.ledger.job(job.id.number).state for job in jobs] == [
        JobState.PENDING if old_is_mined else JobState.SCHEDULED,
        JobState.PENDING,
    ]
    assert wallet_sender.signed() == []
