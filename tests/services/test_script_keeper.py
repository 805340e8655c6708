# SPDX-License-Identifier: Apache-2.0
"""How long scripts are kept, and how many."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.definitions import MemoryScripts, OneJobLedger, matched_job, new_keeper
from tests.fakes.store import FakeClock, MemoryCursor

from gridstead.domain.job_definition import Resealed
from gridstead.domain.lifecycle import COLD, HOT, JobState
from gridstead.errors import ChainUnavailable, TooMuch, Transient

CUSTOMER = "0x" + "c0" * 20
PROVIDER = "0x" + "ab" * 20
AFTER_END_S, UNUSED_S = 3600, 86_400


class Scene:
    def __init__(self):
        self.scripts = MemoryScripts()
        self.ledger = OneJobLedger()
        self.clock = FakeClock()
        self.cursor = MemoryCursor()
        self.keeper = self.restarted()

    def restarted(self, **settings):
        return new_keeper(self.scripts, self.ledger, self.clock, cursor=self.cursor, **settings)

    def keep(self, name="script", size=10):
        self.keeper.keep(name, "x" * size, owner="")

    def name_it(self, state=JobState.PENDING, name="script"):
        self.ledger.job = matched_job(CUSTOMER, PROVIDER, name, state)
        self.keeper.learn()

    def later(self, seconds):
        self.clock.advance(seconds)
        self.keeper.sweep()


@pytest.fixture
def scene():
    return Scene()


def test_script_that_no_job_names_is_removed_after_its_time(scene):
    scene.keep()
    scene.later(UNUSED_S)
    assert scene.scripts.records

    scene.later(1)

    assert not scene.scripts.records


@pytest.mark.parametrize("state", sorted(HOT))
def test_script_of_a_hot_job_is_kept(scene, state):
    """However long it waits: the reference forgot a script an hour after its submission."""
    scene.keep()
    scene.name_it(state)

    scene.later(100 * UNUSED_S)

    assert scene.scripts.records


@pytest.mark.parametrize("state", sorted(COLD))
def test_script_of_a_job_that_is_over_is_removed_after_its_time(scene, state):
    scene.keep()
    scene.name_it()
    scene.ledger.job = replace(scene.ledger.job, state=state)
    scene.later(0)
    scene.later(AFTER_END_S)
    assert scene.scripts.records

    scene.later(1)

    assert not scene.scripts.records


def test_script_whose_job_came_while_the_service_was_away_is_kept(scene):
    scene.keep()
    scene.ledger.job = matched_job(CUSTOMER, PROVIDER, "script", JobState.PENDING)
    scene.keeper = scene.restarted()

    scene.later(100 * UNUSED_S)

    assert scene.scripts.records


def test_script_of_a_job_that_one_server_does_not_show_yet_is_kept(scene):
    """Several servers behind one endpoint: the one that is asked now lags behind the one that told of the job."""
    scene.keep()
    scene.name_it()
    jobs, scene.ledger.jobs = scene.ledger.jobs, lambda numbers, *, at: {}
    scene.later(0)
    scene.ledger.jobs = jobs

    scene.later(60)
    scene.later(100 * UNUSED_S)

    assert scene.scripts.records


def test_script_of_a_job_that_is_gone_for_good_is_removed(scene):
    scene.keep()
    scene.name_it()
    scene.ledger.job = None
    scene.later(60)
    scene.later(60)
    scene.later(AFTER_END_S)
    assert scene.scripts.records

    scene.later(1)

    assert not scene.scripts.records


def test_script_of_a_job_that_a_reorg_took_away_waits_for_it(scene):
    scene.keep()
    scene.name_it()
    job, scene.ledger.job = scene.ledger.job, None
    scene.later(60)
    scene.later(60)
    scene.ledger.job = job
    scene.keeper.learn()

    scene.later(100 * UNUSED_S)

    assert scene.scripts.records


def test_script_of_a_job_number_that_begins_anew_is_removed(scene):
    """On a fresh chain numbers start again, and the job of this number has another script."""
    scene.keep()
    scene.name_it()
    scene.ledger.job = replace(scene.ledger.job, batch_location_hash="another")
    scene.later(60)
    scene.later(60)

    scene.later(AFTER_END_S + 1)

    assert not scene.scripts.records


@pytest.mark.parametrize("name", ["", "x" * 32, "a\0b", "../x", "é"])
def test_job_that_names_anything_else_is_passed_over(scene, name):
    scene.name_it(name=name)

    assert not scene.scripts.uses()


def test_many_jobs_are_looked_at_page_by_page(scene, monkeypatch):
    monkeypatch.setattr("gridstead.services.script_keeper.JOBS_PER_READ", 1)
    for number, name in enumerate(["a", "b", "c"], start=5):
        scene.keep(name)
        job = matched_job(CUSTOMER, PROVIDER, name)
        scene.ledger.job = replace(job, id=replace(job.id, number=number))
        scene.keeper.learn()

    scene.later(60)
    scene.later(60)

    assert [use.batch_location_hash for use in scene.scripts.uses()] == ["c"]


def test_chain_that_does_not_answer_loses_nothing(scene):
    scene.keep()
    scene.name_it()
    scene.ledger.down = True

    with pytest.raises(ChainUnavailable):
        scene.later(10 * UNUSED_S)

    assert scene.scripts.records


def test_no_more_is_kept_for_unnamed_jobs_than_the_limit(scene):
    scene.keeper = scene.restarted(unused_bytes=25)
    scene.keep("a")
    scene.keep("b")

    with pytest.raises(TooMuch) as caught:
        scene.keep("c")

    assert "Try again later" in caught.value.hint
    assert set(scene.scripts.records) == {"a", "b"}


def test_scripts_of_jobs_that_are_over_count_until_they_are_removed(scene):
    scene.keeper = scene.restarted(unused_bytes=25)
    scene.keep(size=20)
    scene.name_it()
    scene.ledger.job = replace(scene.ledger.job, state=JobState.FINISHED)
    scene.later(0)

    with pytest.raises(TooMuch) as caught:
        scene.keep("b", size=20)
    scene.later(AFTER_END_S + 1)
    scene.keep("b", size=20)

    assert caught.value.detail == "too many scripts without a hot job are stored"
    assert "after their job's end" in caught.value.hint


def test_limit_holds_after_a_restart(scene):
    scene.keep(size=20)
    scene.keeper = scene.restarted(unused_bytes=25)

    with pytest.raises(TooMuch):
        scene.keep("b")


def test_named_scripts_make_room(scene):
    scene.keeper = scene.restarted(unused_bytes=25)
    scene.keep(size=20)
    scene.name_it()
    scene.later(0)

    scene.keep("b", size=20)

    assert len(scene.scripts.records) == 2


def test_old_seals_are_made_anew_until_none_is_left(scene, capsys):
    def reseal(*, after):
        pages = {"": Resealed(count=200, unreadable=(), last="m"), "m": Resealed(count=3, unreadable=(), last="z")}
        return pages.get(after, Resealed(count=0, unreadable=(), last=None))

    scene.scripts.reseal = reseal

    scene.keeper.sweep()

    assert "count=203" in capsys.readouterr().out


def test_damaged_record_is_told_once_and_keeps_nothing_from_being_done(scene, capsys):
    scene.keeper = scene.restarted(unused_bytes=25)
    scene.keep(size=20)
    pages = {"": Resealed(count=1, unreadable=("script-x",), last="m")}
    scene.scripts.reseal = lambda *, after: pages.get(after, Resealed(count=0, unreadable=(), last=None))

    scene.later(UNUSED_S + 1)
    scene.later(60)
    scene.keep("b", size=20)

    told = capsys.readouterr().out
    assert told.count("script_unreadable") == 1
    assert "batch_location_hash=script-x" in told


def test_room_is_counted_before_records_are_sealed_anew(scene):
    scene.keeper = scene.restarted(unused_bytes=25)
    scene.keep(size=20)

    def reseal(*, after):
        raise Transient("could not reach the state store")

    scene.scripts.reseal = reseal
    with pytest.raises(Transient):
        scene.later(UNUSED_S + 1)

    scene.keep("b", size=20)
