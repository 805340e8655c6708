# SPDX-License-Identifier: Apache-2.0
"""The sender's rarer turns, on fakes; its common ways are shown on a real chain in tests/adapters/chain."""

from __future__ import annotations

import pytest
from tests.services.office import PROVIDER, Office

from gridstead.domain.calls import ClaimJobs, Refuse, SetRunning
from gridstead.domain.lifecycle import JobState
from gridstead.domain.sending import SendState
from gridstead.errors import ChainUnavailable, ConfigError


@pytest.fixture
def office():
    return Office()


def test_empty_outbox_needs_nothing_of_the_chain_but_its_name(office):
    office.sender.tick()

    assert office.account.sent == []


def test_chain_without_a_first_block_is_waited_for(office):
    office.ledger.block = lambda _number: None

    with pytest.raises(ChainUnavailable, match="first block"):
        office.sender.tick()


def test_nothing_is_decided_on_a_chain_that_changes_while_it_is_read(office):
    office.put_running()
    fees = office.account.fees

    def reorganised_now():
        office.ledger.reorg(1)
        return fees()

    office.account.fees = reorganised_now
    with pytest.raises(ChainUnavailable, match="reorganised meanwhile"):
        office.sender.tick()

    assert office.account.sent == []
    assert office.states() == [SendState.QUEUED]


def test_refused_call_waits_while_something_else_is_on_its_way(office):
    """What waits to be mined may be what the call needs."""
    office.put_running()
    office.sender.tick()
    office.account.refuses = True
    office.outbox.put("claim", ClaimJobs(limit=1))
    office.sender.tick()
    assert office.states() == [SendState.SENT, SendState.QUEUED]

    office.ledger.mine()
    office.tick_and_mine(3)
    assert office.states() == [SendState.FINAL, SendState.REJECTED]


def test_stuck_call_that_would_be_refused_by_now_gives_its_nonce_away(office):
    office.outbox.put("claim", ClaimJobs(limit=1))
    office.sender.tick()
    office.account.refuses = True
    office.mine_nothing()
    office.clock.advance(30)
    office.sender.tick()
    assert [one.entry_ids for one in office.account.sent] == [(1,), ()]

    office.ledger.mine()
    office.tick_and_mine(3)

    assert office.states() == [SendState.REJECTED]
    assert office.ledger._state.nonces[PROVIDER] == 1


def test_other_transaction_of_the_same_nonce_in_the_pool_is_outbid(office):
    """As when the store was lost: the node still holds what an earlier life signed."""
    office.put_running()
    rich = office.account.sign((), entry_ids=(), nonce=0, gas=1, fees=office.account.fees())
    office.account.send([rich])
    office.sender.tick()
    assert office.states() == [SendState.SENT]

    office.sender.tick()
    office.ledger.mine()
    office.tick_and_mine(2)

    assert office.states() == [SendState.FINAL]
    assert office.ledger.job(1).started_at > 0


def test_nonce_that_another_program_used_costs_no_call(office):
    office.put_running()
    office.sender.tick()
    office.ledger.pool.clear()
    office.account.send([office.account.sign((), entry_ids=(), nonce=0, gas=1, fees=office.account.fees())])
    office.ledger.mine()
    office.tick_and_mine(4)

    assert office.states() == [SendState.FINAL]
    assert office.ledger._state.nonces[PROVIDER] == 2


def test_no_higher_offer_is_made_while_no_block_comes(office):
    office.put_running()
    for _ in range(20):
        office.sender.tick()
        office.clock.advance(10)
    assert len({one.hash for one in office.account.sent}) == 1

    for _ in range(4):
        office.mine_nothing()
        office.clock.advance(10)
        office.sender.tick()
    assert len({one.hash for one in office.account.sent}) == 2


def test_transaction_that_the_node_refuses_is_cut_in_halves(office):
    office.account.most_calls = 2
    for _ in range(9):
        office.put_running()

    office.tick_and_mine(8)

    assert office.states() == [SendState.FINAL] * 9


@pytest.mark.parametrize("key", ["claim:{}:0", "settle"])
def test_call_that_the_node_always_refuses_is_tried_ever_more_seldom(office, key):
    """Who wants it asks again at once, and each try costs a transaction that does nothing."""
    job = office.claimed_job()
    call = ClaimJobs(limit=1) if "claim" in key else SetRunning(proof=job.proof, started_at=1)
    office.account.most_calls = 0
    for turn in range(100):
        if not office.outbox.open_entries():
            office.outbox.put(key.format(turn), call)
        office.tick_and_mine()
        office.clock.advance(6)

    assert 2 <= len([one for one in office.signed(closed=True) if one.entry_ids]) <= 5

    office.account.most_calls = 50
    office.clock.advance(3600)
    office.tick_and_mine(3)
    assert office.states()[-1] is SendState.FINAL


def test_call_that_the_node_refuses_alone_holds_up_no_other(office):
    for _ in range(3):
        office.put_running()
    office.outbox.put("claim", ClaimJobs(limit=1))
    office.account.most_calls = 0
    office.tick_and_mine(3)
    assert office.states() == [SendState.REJECTED] * 4
    assert {entry.reason for entry in office.outbox.entries()} == {'the node refused it: "exceeds block gas limit"'}

    office.account.most_calls = 50
    office.put_running()
    office.tick_and_mine(4)

    assert office.states()[-1] is SendState.FINAL
    assert office.outbox.open_entries() == ()


def test_node_without_room_gets_the_rest_later(office):
    office.policy(batch=1)
    for _ in range(6):
        office.put_running()
    office.account.room = 4
    with pytest.raises(ChainUnavailable, match="txpool is full"):
        office.sender.tick()
    assert [one.sent_at is not None for one in office.signed()] == [True] * 4 + [False] * 2

    office.ledger.mine()
    office.tick_and_mine(4)

    assert office.states() == [SendState.FINAL] * 6
    assert len(office.signed(closed=True)) == 6


def test_wallet_that_cannot_pay_for_all_that_waits_pays_for_it_in_turn(office):
    office.policy(batch=1)
    for _ in range(3):
        office.put_running()
    office.account.purse = 2
    with pytest.raises(ChainUnavailable, match="insufficient funds"):
        office.sender.tick()

    office.ledger.mine()
    office.tick_and_mine(4)

    assert office.states() == [SendState.FINAL] * 3


def test_wallet_that_cannot_pay_for_the_first_that_waits_is_the_operators_matter(office):
    office.put_running()
    office.account.purse = 0

    with pytest.raises(ConfigError, match="cannot pay"):
        office.sender.tick()

    assert office.states() == [SendState.SENT]


def test_offers_stay_within_their_bound_however_long_it_takes(office):
    office.put_running()
    for _ in range(60):
        office.sender.tick()
        office.mine_nothing()
        office.clock.advance(31)
    usual, offers = office.account.fees(), [one.fees for one in office.signed()]
    assert offers == sorted(offers, key=lambda fees: fees.max_fee)
    assert 5 * usual.max_fee < offers[-1].max_fee <= 10 * usual.max_fee
    assert 5 * usual.tip < offers[-1].tip <= 10 * usual.tip

    office.tick_and_mine(3)

    assert office.states() == [SendState.FINAL]
    assert office.ledger._state.nonces[PROVIDER] == 1


@pytest.mark.parametrize("taken_before", [True, False])
def test_offer_of_what_a_node_has_no_room_for_is_raised(office, taken_before):
    office.put_running()
    if taken_before:
        office.sender.tick()
    office.policy(replace_after_s=30, resend_after_s=1)
    office.ledger.pool, office.account.room = {}, 0
    for _ in range(4):
        office.clock.advance(20)
        office.mine_nothing()
        with pytest.raises(ChainUnavailable, match="could not send"):
            office.sender.tick()

    assert len({one.fees.max_fee for one in office.signed()}) > 1


def test_nonce_is_kept_when_the_replacement_of_what_was_sent_is_refused(office):
    office.put_running()
    office.sender.tick()
    office.account.most_calls = 0
    office.clock.advance(20)
    office.mine_nothing()
    office.sender.tick()
    office.clock.advance(20)
    office.mine_nothing()
    office.sender.tick()

    assert len(office.signed()) > 1
    assert not any(one.withdrawn for one in office.signed())
    assert office.states() == [SendState.SENT]


def test_transaction_that_the_pool_lost_is_given_again_soon_after_the_clock_is_set_back(office):
    office.put_running()
    office.sender.tick()
    office.ledger.pool.clear()
    office.clock.advance(-7200)
    for _ in range(2):
        office.sender.tick()
        office.clock.advance(10)
    office.tick_and_mine(3)

    assert office.states() == [SendState.FINAL]


def test_higher_offer_is_made_soon_after_the_clock_is_set_back(office):
    office.put_running()
    office.sender.tick()
    office.clock.advance(-7200)
    for _ in range(5):
        office.mine_nothing()
        office.sender.tick()
        office.clock.advance(10)

    assert len({one.fees.max_fee for one in office.signed()}) > 1


def test_refused_call_rests_no_longer_for_a_clock_that_is_set_back(office):
    office.put_running()
    office.account.most_calls = 0
    office.tick_and_mine(3)
    assert office.states() == [SendState.REJECTED]

    office.account.most_calls = 50
    office.clock.advance(-7200)
    office.outbox.put("run:1", office.outbox.entries()[0].call)
    for _ in range(10):
        office.tick_and_mine()
        office.clock.advance(10)

    assert office.states()[-1] is SendState.FINAL


@pytest.mark.parametrize("old_is_mined", [False, True])
def test_withdrawn_transaction_may_be_mined_and_no_call_is_made_twice(office, old_is_mined):
    """An objection to one call withdraws a transaction that the node has; who mines next may have it, or the filler."""
    office.policy(confirmations=3)
    jobs = [office.claimed_job() for _ in range(2)]
    for job in jobs:
        office.outbox.put(f"refuse:{job.id.number}", Refuse(proof=job.proof))
    office.ledger.mine()
    office.sender.tick()
    sent, office.ledger.pool = office.ledger.pool, {}
    real = office.ledger.jobs
    office.ledger.reorg(1)
    office.ledger.pool = dict(sent)
    office.ledger.jobs = lambda numbers, *, at: real([one for one in numbers if one != jobs[0].id.number], at=at)
    office.sender.tick()
    office.ledger.jobs = real
    assert office.states() == [SendState.REJECTED, SendState.SENT]
    if old_is_mined:
        office.ledger.pool |= sent
    office.ledger.mine()
    office.tick_and_mine(6)

    assert office.states() == [SendState.REJECTED, SendState.FINAL]
    assert [office.ledger.job(job.id.number).state for job in jobs] == [
        JobState.PENDING if old_is_mined else JobState.SCHEDULED,
        JobState.PENDING,
    ]
    assert office.signed() == []
