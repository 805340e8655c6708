# SPDX-License-Identifier: Apache-2.0
"""Tests of the matches that a meta-scheduler holds while another one is first.

A meta-scheduler is alone while all others seem to be stopped. It then holds no matches.
"""

from __future__ import annotations

import pytest
from tests.unit.domain.builders import PROVIDER, job

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.job import Block
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import Match
from gridstead.services.matching.standby import ALONE_BLOCKS, BLOCKS_PER_RANK, Standby

FIRST, SECOND, THIRD = (f"0x{number:040x}" for number in (1, 2, 3))
START = 1000  # the block at which the first matches are decided
ALONE_SINCE = START + BLOCKS_PER_RANK


def block(number):
    return Block(number=number, hash=f"0x{number:064x}", timestamp=2 * number)


def role_event(kind, scheduler):
    return ChainEvent(kind=kind, block=1, index=0, scheduler=scheduler)


def pending_job(number=7):
    return job(JobState.PENDING, number=number)


def matched_job(number, state_block):
    return job(JobState.META_SCHEDULED, number=number, state_block=state_block)


def match_of(a_job):
    return Match(job_key=a_job.job_key, provider=PROVIDER)


def new_standby(wallet=SECOND, schedulers=(FIRST, SECOND, THIRD)):
    standby = Standby(wallet)
    for scheduler in schedulers:
        standby.read_event(role_event(ChainEventKind.SCHEDULER_ADDED, scheduler))
    return standby


def released(standby, number):
    """Return the matches that are released at a block."""
    matches = []
    for _, due_matches in standby.release(block(number)):
        matches += due_matches
    return matches


def holds(standby, number, of_job=None):
    """Return whether a match that is decided at a block is held."""
    return standby.hold([match_of(of_job or pending_job(99))], block(number))


@pytest.fixture
def alone():
    """Return a meta-scheduler that is alone since ALONE_SINCE."""
    standby = new_standby()
    assert holds(standby, START)
    assert len(released(standby, ALONE_SINCE)) == 1
    return standby


@pytest.mark.parametrize(("wallet", "delay"), [(FIRST, 0), (SECOND, 3), (THIRD, 6)])
def test_match_is_held_for_three_blocks_per_lower_address(wallet, delay):
    standby = new_standby(wallet)
    match = match_of(pending_job())

    assert standby.hold([match], block(START)) is (delay > 0)

    for number in range(START, START + delay):
        assert released(standby, number) == []
    assert released(standby, START + delay) == ([match] if delay else [])


def test_removed_meta_scheduler_causes_no_delay():
    standby = new_standby()

    standby.read_event(role_event(ChainEventKind.SCHEDULER_REMOVED, FIRST))

    assert not holds(standby, START)


def test_matches_are_released_with_the_blocks_of_their_decisions():
    standby = new_standby()
    first_match, second_match = (match_of(pending_job(number)) for number in (7, 8))
    standby.hold([first_match], block(START))
    standby.hold([second_match], block(START + 1))

    releases = list(standby.release(block(START + 1 + BLOCKS_PER_RANK)))

    assert releases == [(block(START), [first_match]), (block(START + 1), [second_match])]


@pytest.mark.parametrize("pending_jobs", [(), (job(JobState.PENDING, batch_location_hash="new"),)])
def test_match_is_dropped_if_its_job_is_not_pending(pending_jobs):
    """After a reorg, another job may have the id of the job."""
    standby = new_standby()
    standby.hold([match_of(pending_job())], block(START))

    assert standby.held({each.id: each for each in pending_jobs}) == {}
    assert released(standby, ALONE_SINCE) == []


def test_match_of_a_job_that_was_matched_and_returned_within_a_tick_is_dropped():
    standby = new_standby()
    returned_job, other_job = pending_job(7), pending_job(8)
    standby.hold([match_of(returned_job), match_of(other_job)], block(START))

    for kind in (ChainEventKind.JOB_TRANSITION, ChainEventKind.JOB_REFUSED):
        standby.read_event(ChainEvent(kind=kind, block=START + 2, index=0, job_id=returned_job.id))
    pending_jobs = {returned_job.id: returned_job, other_job.id: other_job}

    assert standby.held(pending_jobs) == {other_job.job_key: match_of(other_job)}
    assert released(standby, ALONE_SINCE) == [match_of(other_job)]


def test_match_of_a_job_that_is_read_again_without_an_event_is_kept():
    standby = new_standby()
    held_job = pending_job()
    standby.hold([match_of(held_job)], block(START))

    standby.note_change(held_job, {})

    assert standby.held({held_job.id: held_job}) == {held_job.job_key: match_of(held_job)}


@pytest.mark.parametrize(("offset", "is_held"), [(ALONE_BLOCKS, False), (ALONE_BLOCKS + 1, True)])
def test_matches_are_not_held_for_a_thousand_blocks_after_a_release(alone, offset, is_held):
    assert holds(alone, ALONE_SINCE + offset) is is_held


@pytest.mark.parametrize("read_blocks", [1, 2, 3, 50])
def test_match_of_another_meta_scheduler_is_noticed(alone, read_blocks):
    """A tick reads several blocks, and the match is in the oldest of them."""
    alone.note_change(matched_job(8, ALONE_SINCE + 1), {})
    released(alone, ALONE_SINCE + read_blocks)

    assert holds(alone, ALONE_SINCE + read_blocks)


def test_match_before_the_release_is_not_noticed(alone):
    alone.note_change(matched_job(8, ALONE_SINCE), {})

    assert not holds(alone, ALONE_SINCE + 1)


def test_own_match_is_not_noticed(alone):
    own_job = matched_job(8, ALONE_SINCE + 1)

    alone.note_change(own_job, {own_job.job_key: match_of(own_job)})

    assert not holds(alone, ALONE_SINCE + 2)


def test_own_match_is_not_noticed_if_its_job_is_read_again_when_it_is_final(alone):
    own_job = matched_job(8, ALONE_SINCE + 1)
    alone.note_change(own_job, {own_job.job_key: match_of(own_job)})
    released(alone, ALONE_SINCE + 70)

    alone.note_change(own_job, {})

    assert not holds(alone, ALONE_SINCE + 71)
