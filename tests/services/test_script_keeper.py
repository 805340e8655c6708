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


class DefinitionsSetup:
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
def definitions_setup():
    return DefinitionsSetup()


def test_script_that_no_job_names_is_removed_after_its_time(definitions_setup):
    definitions_setup.keep()
    definitions_setup.later(UNUSED_S)
    assert definitions_setup.scripts.records

    definitions_setup.later(1)

    assert not definitions_setup.scripts.records


@pytest.mark.parametrize("state", sorted(HOT))
def test_script_of_a_hot_job_is_kept(definitions_setup, state):
    """However long it waits: the reference forgot a script an hour after its submission."""
    definitions_setup.keep()
    definitions_setup.name_it(state)

    definitions_setup.later(100 * UNUSED_S)

    assert definitions_setup.scripts.records


@pytest.mark.parametrize("state", sorted(COLD))
def test_script_of_a_job_that_is_over_is_removed_after_its_time(definitions_setup, state):
    definitions_setup.keep()
    definitions_setup.name_it()
    definitions_setup.ledger.job = replace(definitions_setup.ledger.job, state=state)
    definitions_setup.later(0)
    definitions_setup.later(AFTER_END_S)
    assert definitions_setup.scripts.records

    definitions_setup.later(1)

    assert not definitions_setup.scripts.records


def test_script_whose_job_came_while_the_service_was_away_is_kept(definitions_setup):
    definitions_setup.keep()
    definitions_setup.ledger.job = matched_job(CUSTOMER, PROVIDER, "script", JobState.PENDING)
    definitions_setup.keeper = definitions_setup.restarted()

    definitions_setup.later(100 * UNUSED_S)

    assert definitions_setup.scripts.records


def test_script_of_a_job_that_one_server_does_not_show_yet_is_kept(definitions_setup):
    """Several servers behind one endpoint: the one that is asked now lags behind the one that told
    of the job.
    """
    definitions_setup.keep()
    definitions_setup.name_it()
    jobs, definitions_setup.ledger.jobs = (
        definitions_setup.ledger.jobs,
        lambda numbers, *, at_block: {},
    )
    definitions_setup.later(0)
    definitions_setup.ledger.jobs = jobs

    definitions_setup.later(60)
    definitions_setup.later(100 * UNUSED_S)

    assert definitions_setup.scripts.records


def test_script_of_a_job_that_is_gone_for_good_is_removed(definitions_setup):
    definitions_setup.keep()
    definitions_setup.name_it()
    definitions_setup.ledger.job = None
    definitions_setup.later(60)
    definitions_setup.later(60)
    definitions_setup.later(AFTER_END_S)
    assert definitions_setup.scripts.records

    definitions_setup.later(1)

    assert not definitions_setup.scripts.records


def test_script_of_a_job_that_a_reorg_took_away_waits_for_it(definitions_setup):
    definitions_setup.keep()
    definitions_setup.name_it()
    job, definitions_setup.ledger.job = definitions_setup.ledger.job, None
    definitions_setup.later(60)
    definitions_setup.later(60)
    definitions_setup.ledger.job = job
    definitions_setup.keeper.learn()

    definitions_setup.later(100 * UNUSED_S)

    assert definitions_setup.scripts.records


def test_script_of_a_job_number_that_begins_anew_is_removed(definitions_setup):
    """On a fresh chain numbers start again, and the job of this number has another script."""
    definitions_setup.keep()
    definitions_setup.name_it()
    definitions_setup.ledger.job = replace(
        definitions_setup.ledger.job, batch_location_hash="another"
    )
    definitions_setup.later(60)
    definitions_setup.later(60)

    definitions_setup.later(AFTER_END_S + 1)

    assert not definitions_setup.scripts.records


@pytest.mark.parametrize("name", ["", "x" * 32, "a\0b", "../x", "é"])
def test_job_that_names_anything_else_is_passed_over(definitions_setup, name):
    definitions_setup.name_it(name=name)

    assert not definitions_setup.scripts.uses()


def test_many_jobs_are_looked_at_page_by_page(definitions_setup, monkeypatch):
    monkeypatch.setattr("gridstead.services.script_keeper.JOBS_PER_READ", 1)
    for number, name in enumerate(["a", "b", "c"], start=5):
        definitions_setup.keep(name)
        job = matched_job(CUSTOMER, PROVIDER, name)
        definitions_setup.ledger.job = replace(job, id=replace(job.id, number=number))
        definitions_setup.keeper.learn()

    definitions_setup.later(60)
    definitions_setup.later(60)

    assert [use.batch_location_hash for use in definitions_setup.scripts.uses()] == ["c"]


def test_chain_that_does_not_answer_loses_nothing(definitions_setup):
    definitions_setup.keep()
    definitions_setup.name_it()
    definitions_setup.ledger.down = True

    with pytest.raises(ChainUnavailable):
        definitions_setup.later(10 * UNUSED_S)

    assert definitions_setup.scripts.records


def test_no_more_is_kept_for_unnamed_jobs_than_the_limit(definitions_setup):
    definitions_setup.keeper = definitions_setup.restarted(unused_bytes=25)
    definitions_setup.keep("a")
    definitions_setup.keep("b")

    with pytest.raises(TooMuch) as caught:
        definitions_setup.keep("c")

    assert "Try again later" in caught.value.hint
    assert set(definitions_setup.scripts.records) == {"a", "b"}


def test_scripts_of_jobs_that_are_over_count_until_they_are_removed(definitions_setup):
    definitions_setup.keeper = definitions_setup.restarted(unused_bytes=25)
    definitions_setup.keep(size=20)
    definitions_setup.name_it()
    definitions_setup.ledger.job = replace(definitions_setup.ledger.job, state=JobState.FINISHED)
    definitions_setup.later(0)

    with pytest.raises(TooMuch) as caught:
        definitions_setup.keep("b", size=20)
    definitions_setup.later(AFTER_END_S + 1)
    definitions_setup.keep("b", size=20)

    assert caught.value.detail == "too many scripts without a hot job are stored"
    assert "after their job's end" in caught.value.hint


def test_limit_holds_after_a_restart(definitions_setup):
    definitions_setup.keep(size=20)
    definitions_setup.keeper = definitions_setup.restarted(unused_bytes=25)

    with pytest.raises(TooMuch):
        definitions_setup.keep("b")


def test_named_scripts_make_room(definitions_setup):
    definitions_setup.keeper = definitions_setup.restarted(unused_bytes=25)
    definitions_setup.keep(size=20)
    definitions_setup.name_it()
    definitions_setup.later(0)

    definitions_setup.keep("b", size=20)

    assert len(definitions_setup.scripts.records) == 2


def test_old_seals_are_made_anew_until_none_is_left(definitions_setup, capsys):
    def reseal(*, after):
        pages = {
            "": Resealed(count=200, unreadable=(), last="m"),
            "m": Resealed(count=3, unreadable=(), last="z"),
        }
        return pages.get(after, Resealed(count=0, unreadable=(), last=None))

    definitions_setup.scripts.reseal = reseal

    definitions_setup.keeper.sweep()

    assert "count=203" in capsys.readouterr().out


def test_damaged_record_is_told_once_and_keeps_nothing_from_being_done(definitions_setup, capsys):
    definitions_setup.keeper = definitions_setup.restarted(unused_bytes=25)
    definitions_setup.keep(size=20)
    pages = {"": Resealed(count=1, unreadable=("script-x",), last="m")}
    definitions_setup.scripts.reseal = lambda *, after: pages.get(
        after, Resealed(count=0, unreadable=(), last=None)
    )

    definitions_setup.later(UNUSED_S + 1)
    definitions_setup.later(60)
    definitions_setup.keep("b", size=20)

    told = capsys.readouterr().out
    assert told.count("script_unreadable") == 1
    assert "batch_location_hash=script-x" in told


def test_room_is_counted_before_records_are_sealed_anew(definitions_setup):
    definitions_setup.keeper = definitions_setup.restarted(unused_bytes=25)
    definitions_setup.keep(size=20)

    def reseal(*, after):
        raise Transient("could not reach the state store")

    definitions_setup.scripts.reseal = reseal
    with pytest.raises(Transient):
        definitions_setup.later(UNUSED_S + 1)

    definitions_setup.keep("b", size=20)
