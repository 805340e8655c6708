# SPDX-License-Identifier: Apache-2.0
"""Reports are stored in order, read by cursor, and survive a restart. The spool is read in whole
lines.
"""

import threading

import pytest
from tests.fakes.store import FakeClock

from gridstead.adapters.slurm.reports import SqliteReports
from gridstead.adapters.slurm.spool import FileSpool
from gridstead.domain.slurm.hint import Hint
from gridstead.errors import ConfigError

DAY_S = 86_400


def hint(number, event="end"):
    return Hint(event=event, slurm_job_id=number, uid=200001, occurred_at=1790000000 + number)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(tmp_path, clock):
    store = SqliteReports(tmp_path / "reports.db", clock)
    yield store
    store.close()


def jobs(reports):
    return [report.slurm_job_id for report in reports]


def test_reports_are_returned_in_the_order_they_were_stored(store):
    store.add([hint(1), hint(2)])
    store.add([hint(3)])

    first = store.after(0, wait_s=0)
    assert jobs(first) == [1, 2, 3]
    assert jobs(store.after(first[1].sequence, wait_s=0)) == [3]
    assert store.after(first[2].sequence, wait_s=0) == ()


def test_the_same_report_is_stored_once(store):
    store.add([hint(1)])
    store.add([hint(1), hint(1, "start")])

    assert [report.event for report in store.after(0, wait_s=0)] == ["end", "start"]


def test_reports_and_sequences_survive_a_restart(tmp_path, clock, store):
    store.add([hint(1)])
    (before,) = store.after(0, wait_s=0)

    again = SqliteReports(tmp_path / "reports.db", clock)
    again.add([hint(2)])

    assert jobs(again.after(0, wait_s=0)) == [1, 2]
    assert again.after(before.sequence, wait_s=0)[0].sequence > before.sequence
    again.close()


def test_sequences_grow_even_if_the_file_is_lost(tmp_path, clock, store):
    store.add([hint(1)])
    (before,) = store.after(0, wait_s=0)
    clock.advance(60)

    other = SqliteReports(tmp_path / "other.db", clock)
    other.add([hint(2)])

    assert jobs(other.after(before.sequence, wait_s=0)) == [2]
    other.close()


def test_after_returns_as_soon_as_a_report_is_added(store):
    timer = threading.Timer(0.05, store.add, [[hint(1)]])
    timer.start()

    reports = store.after(0, wait_s=30)

    timer.join()
    assert jobs(reports) == [1]


def test_forget_deletes_only_old_reports(store, clock):
    store.add([hint(1)])
    clock.advance(DAY_S)
    store.add([hint(2)])

    store.forget(before=clock.now() - 1)

    assert jobs(store.after(0, wait_s=0)) == [2]


def test_a_file_that_cannot_be_opened_is_a_config_error(tmp_path, clock):
    with pytest.raises(ConfigError):
        SqliteReports(tmp_path / "missing" / "reports.db", clock)


@pytest.fixture
def spool_file(tmp_path):
    return tmp_path / "jobcomp.jsonl"


def test_take_renames_the_spool_and_the_next_take_reads_it(spool_file):
    spool = FileSpool(spool_file)
    spool_file.write_text("a\nb\n")

    assert spool.take() == ()
    assert not spool_file.exists()
    assert spool.take() == ("a", "b")


def test_take_returns_the_same_lines_until_they_are_done(spool_file):
    spool_file.write_text("a\n")
    FileSpool(spool_file).take()

    restarted = FileSpool(spool_file)
    assert restarted.take() == ("a",)
    assert restarted.take() == ("a",)
    restarted.done(rejected=[])
    assert restarted.take() == ()


def test_lines_written_during_a_read_are_returned_later(spool_file):
    spool = FileSpool(spool_file)
    spool_file.write_text("a\n")
    spool.take()
    spool_file.write_text("b\n")

    assert spool.take() == ("a",)
    spool.done(rejected=[])
    assert spool.take() == ()
    assert spool.take() == ("b",)


def test_rejected_lines_are_written_to_a_separate_file(spool_file):
    spool = FileSpool(spool_file)
    spool_file.write_bytes(b"a\n\xff{torn")
    spool.take()

    lines = spool.take()
    spool.done(rejected=lines[1:])

    assert spool_file.with_suffix(".rejected").read_text() == "\ufffd{torn\n"


def test_take_without_a_spool_file_returns_nothing(spool_file):
    assert FileSpool(spool_file).take() == ()
