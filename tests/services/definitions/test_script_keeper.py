# SPDX-License-Identifier: Apache-2.0
"""The script keeper: how long it keeps batch scripts, and how much space the scripts may use."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.definitions import MemoryScripts, OneJobLedger, matched_job, new_keeper
from tests.fakes.store import FakeClock, MemoryCursor

from gridstead.domain.definitions.job_definition import ResealResult
from gridstead.domain.jobs.lifecycle import COLD, HOT, JobState
from gridstead.errors import ChainUnavailable, LimitExceeded, Transient

CUSTOMER = "0x" + "c0" * 20
PROVIDER = "0x" + "ab" * 20
KEPT_AFTER_END_S, KEPT_UNUSED_S = 3600, 86_400


class KeeperSetup:
    """A script keeper with its store, chain and clock."""

    def __init__(self):
        self.scripts = MemoryScripts()
        self.ledger = OneJobLedger()
        self.clock = FakeClock()
        self.cursor = MemoryCursor()
        self.keeper = self.new_keeper()

    def new_keeper(self, **settings):
        """Return a keeper on the same store, as after a restart of the service."""
        return new_keeper(self.scripts, self.ledger, self.clock, cursor=self.cursor, **settings)

    def add(self, name="script", size=10):
        self.keeper.add(name, "x" * size, owner="")

    def add_job(self, state=JobState.PENDING, name="script"):
        """Add a job that uses script ``name``, and let the keeper read the chain."""
        self.ledger.job = matched_job(CUSTOMER, PROVIDER, name, state)
        self.keeper.read_chain()

    def sweep_after(self, seconds):
        self.clock.advance(seconds)
        self.keeper.sweep()


@pytest.fixture
def setup():
    return KeeperSetup()


def test_script_without_a_job_expires(setup):
    setup.add()
    setup.sweep_after(KEPT_UNUSED_S)
    assert setup.scripts.records

    setup.sweep_after(1)

    assert not setup.scripts.records


@pytest.mark.parametrize("state", sorted(HOT))
def test_script_of_a_job_that_has_not_ended_is_kept(setup, state):
    """DeepSquare's implementation deleted a script after an hour, even if its job had not ended."""
    setup.add()
    setup.add_job(state)

    setup.sweep_after(100 * KEPT_UNUSED_S)

    assert setup.scripts.records


@pytest.mark.parametrize("state", sorted(COLD))
def test_script_of_an_ended_job_expires(setup, state):
    setup.add()
    setup.add_job()
    setup.ledger.job = replace(setup.ledger.job, state=state)
    setup.sweep_after(0)
    setup.sweep_after(KEPT_AFTER_END_S)
    assert setup.scripts.records

    setup.sweep_after(1)

    assert not setup.scripts.records


def test_script_of_a_job_requested_while_the_service_was_down_is_kept(setup):
    setup.add()
    setup.ledger.job = matched_job(CUSTOMER, PROVIDER, "script", JobState.PENDING)
    setup.keeper = setup.new_keeper()

    setup.sweep_after(100 * KEPT_UNUSED_S)

    assert setup.scripts.records


def test_script_is_kept_if_a_lagging_server_does_not_have_its_job(setup):
    """An endpoint may have several servers, and the server that answers may lack new blocks."""
    setup.add()
    setup.add_job()
    jobs = setup.ledger.jobs
    setup.ledger.jobs = lambda job_ids, *, at_block: {}
    setup.sweep_after(0)
    setup.ledger.jobs = jobs

    setup.sweep_after(60)
    setup.sweep_after(100 * KEPT_UNUSED_S)

    assert setup.scripts.records


def test_script_of_a_job_that_stays_missing_expires(setup):
    setup.add()
    setup.add_job()
    setup.ledger.job = None
    # After two sweeps, the missing job counts as ended.
    setup.sweep_after(60)
    setup.sweep_after(60)
    setup.sweep_after(KEPT_AFTER_END_S)
    assert setup.scripts.records

    setup.sweep_after(1)

    assert not setup.scripts.records


def test_script_of_a_job_that_returns_after_a_reorg_is_kept(setup):
    setup.add()
    setup.add_job()
    job, setup.ledger.job = setup.ledger.job, None
    setup.sweep_after(60)
    setup.sweep_after(60)
    setup.ledger.job = job
    setup.keeper.read_chain()

    setup.sweep_after(100 * KEPT_UNUSED_S)

    assert setup.scripts.records


def test_script_of_a_job_number_that_is_used_again_expires(setup):
    """On a new chain, job numbers start again. The new job of this number has another script."""
    setup.add()
    setup.add_job()
    setup.ledger.job = replace(setup.ledger.job, batch_location_hash="another")
    setup.sweep_after(60)
    setup.sweep_after(60)

    setup.sweep_after(KEPT_AFTER_END_S + 1)

    assert not setup.scripts.records


@pytest.mark.parametrize("name", ["", "x" * 32, "a\0b", "../x", "é"])
def test_job_with_an_invalid_script_id_is_ignored(setup, name):
    setup.add_job(name=name)

    assert not setup.scripts.uses()


def test_many_jobs_are_read_page_by_page(setup, monkeypatch):
    monkeypatch.setattr("gridstead.services.definitions.script_keeper.JOBS_PER_READ", 1)
    for number, name in enumerate(["a", "b", "c"], start=5):
        setup.add(name)
        job = matched_job(CUSTOMER, PROVIDER, name)
        setup.ledger.job = replace(job, id=replace(job.id, number=number))
        setup.keeper.read_chain()

    # The ledger contains only the last job. After two sweeps, the missing jobs count as ended.
    setup.sweep_after(60)
    setup.sweep_after(60)

    assert [use.batch_location_hash for use in setup.scripts.uses()] == ["c"]


def test_no_script_is_lost_if_the_chain_does_not_answer(setup):
    setup.add()
    setup.add_job()
    setup.ledger.down = True

    with pytest.raises(ChainUnavailable):
        setup.sweep_after(10 * KEPT_UNUSED_S)

    assert setup.scripts.records


def test_unused_script_beyond_the_limit_is_refused(setup):
    setup.keeper = setup.new_keeper(unused_bytes=25)
    setup.add("a")
    setup.add("b")

    with pytest.raises(LimitExceeded) as caught:
        setup.add("c")

    assert caught.value.hint
    assert set(setup.scripts.records) == {"a", "b"}


def test_scripts_of_ended_jobs_count_as_unused_until_they_are_removed(setup):
    setup.keeper = setup.new_keeper(unused_bytes=25)
    setup.add(size=20)
    setup.add_job()
    setup.ledger.job = replace(setup.ledger.job, state=JobState.FINISHED)
    setup.sweep_after(0)

    with pytest.raises(LimitExceeded) as caught:
        setup.add("b", size=20)
    setup.sweep_after(KEPT_AFTER_END_S + 1)
    setup.add("b", size=20)

    assert "without a hot job" in caught.value.detail
    assert set(setup.scripts.records) == {"b"}


def test_limit_includes_scripts_from_before_a_restart(setup):
    setup.add(size=20)
    setup.keeper = setup.new_keeper(unused_bytes=25)

    with pytest.raises(LimitExceeded):
        setup.add("b")


def test_scripts_of_jobs_that_have_not_ended_do_not_count_as_unused(setup):
    setup.keeper = setup.new_keeper(unused_bytes=25)
    setup.add(size=20)
    setup.add_job()
    setup.sweep_after(0)

    setup.add("b", size=20)

    assert len(setup.scripts.records) == 2


def reseal_function(pages):
    """Return a fake of the store's method ``reseal``. The fake returns page ``pages[after_id]``.

    The store encrypts its records. ``reseal`` encrypts a page of old records with the newest key.
    """
    last_page = ResealResult(count=0, unreadable=(), last=None)
    return lambda *, after_id: pages.get(after_id, last_page)


def test_all_records_with_an_old_key_are_resealed(setup, capsys):
    pages = {
        "": ResealResult(count=200, unreadable=(), last="m"),
        "m": ResealResult(count=3, unreadable=(), last="z"),
    }
    setup.scripts.reseal = reseal_function(pages)

    setup.keeper.sweep()

    assert "count=203" in capsys.readouterr().out


def test_damaged_record_is_logged_once_and_does_not_stop_the_sweep(setup, capsys):
    setup.keeper = setup.new_keeper(unused_bytes=25)
    setup.add(size=20)
    pages = {"": ResealResult(count=1, unreadable=("script-x",), last="m")}
    setup.scripts.reseal = reseal_function(pages)

    setup.sweep_after(KEPT_UNUSED_S + 1)
    setup.sweep_after(60)
    setup.add("b", size=20)  # The sweep has removed the expired script, so there is space.

    output = capsys.readouterr().out
    assert output.count("script_unreadable") == 1
    assert "batch_location_hash=script-x" in output


def test_space_is_counted_even_if_resealing_fails(setup):
    setup.keeper = setup.new_keeper(unused_bytes=25)
    setup.add(size=20)

    def reseal(*, after_id):
        raise Transient("could not reach the state store")

    setup.scripts.reseal = reseal
    with pytest.raises(Transient):
        setup.sweep_after(KEPT_UNUSED_S + 1)

    setup.add("b", size=20)
