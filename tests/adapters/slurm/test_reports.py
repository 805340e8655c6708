# SPDX-License-Identifier: Apache-2.0
"""The agent's store of reports, and the spool of the job completion plugin.

A *report* says that a Slurm job has started or ended. The *spool* is the file to which the plugin
of slurmctld appends a line for each ended job.
"""

import threading

import pytest
from tests.fakes.store import FakeClock

from gridstead.adapters.slurm.reports import SqliteReports
from gridstead.adapters.slurm.spool import FileSpool
from gridstead.domain.slurm.hint import Hint
from gridstead.errors import ConfigError

DAY_S = 86_400


def hint(slurm_job_id, event="end"):
    return Hint(
        event=event, slurm_job_id=slurm_job_id, uid=200001, occurred_at=1790000000 + slurm_job_id
    )


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(tmp_path, clock):
    store = SqliteReports(tmp_path / "reports.db", clock)
    yield store
    store.close()


def job_ids(reports):
    return [report.slurm_job_id for report in reports]


def test_reports_are_returned_in_the_order_they_were_stored(store):
    store.add([hint(1), hint(2)])
    store.add([hint(3)])

    reports = store.list_after(0, wait_s=0)
    assert job_ids(reports) == [1, 2, 3]
    assert job_ids(store.list_after(reports[1].sequence, wait_s=0)) == [3]
    assert store.list_after(reports[2].sequence, wait_s=0) == ()


def test_a_repeated_report_is_stored_once(store):
    store.add([hint(1)])
    store.add([hint(1), hint(1, "start")])

    assert [report.event for report in store.list_after(0, wait_s=0)] == ["end", "start"]


def test_reports_and_their_sequence_numbers_survive_a_restart(tmp_path, clock, store):
    store.add([hint(1)])
    (old_report,) = store.list_after(0, wait_s=0)

    reopened_reports = SqliteReports(tmp_path / "reports.db", clock)
    reopened_reports.add([hint(2)])

    first, second = reopened_reports.list_after(0, wait_s=0)
    assert job_ids([first, second]) == [1, 2]
    assert first.sequence == old_report.sequence
    assert second.sequence > old_report.sequence
    reopened_reports.close()


def test_sequence_numbers_of_a_new_file_exceed_those_of_a_lost_file(tmp_path, clock, store):
    store.add([hint(1)])
    (old_report,) = store.list_after(0, wait_s=0)
    clock.advance(60)

    new_store = SqliteReports(tmp_path / "other.db", clock)
    new_store.add([hint(2)])

    assert job_ids(new_store.list_after(old_report.sequence, wait_s=0)) == [2]
    new_store.close()


def test_list_after_returns_as_soon_as_a_report_is_added(store):
    timer = threading.Timer(0.05, store.add, [[hint(1)]])
    timer.start()

    reports = store.list_after(0, wait_s=30)

    timer.join()
    assert job_ids(reports) == [1]


def test_reports_before_a_time_are_deleted_and_newer_reports_remain(store, clock):
    store.add([hint(1)])
    clock.advance(DAY_S)
    store.add([hint(2)])

    store.delete(before=clock.now() - 1)

    assert job_ids(store.list_after(0, wait_s=0)) == [2]


def test_a_file_that_cannot_be_opened_is_a_config_error(tmp_path, clock):
    with pytest.raises(ConfigError):
        SqliteReports(tmp_path / "missing" / "reports.db", clock)


@pytest.fixture
def spool_file(tmp_path):
    """Return the path of the spool. The file does not exist yet."""
    return tmp_path / "jobcomp.jsonl"


def test_one_call_renames_the_spool_and_the_next_call_reads_it(spool_file):
    spool = FileSpool(spool_file)
    spool_file.write_text("a\nb\n")

    assert spool.read_lines() == ()
    assert not spool_file.exists()
    assert spool.read_lines() == ("a", "b")


def test_lines_are_returned_by_every_call_until_they_are_removed(spool_file):
    spool_file.write_text("a\n")
    FileSpool(spool_file).read_lines()

    restarted_spool = FileSpool(spool_file)
    assert restarted_spool.read_lines() == ("a",)
    assert restarted_spool.read_lines() == ("a",)
    restarted_spool.remove_lines(rejected=[])
    assert restarted_spool.read_lines() == ()


def test_lines_written_during_a_read_are_returned_later(spool_file):
    spool = FileSpool(spool_file)
    spool_file.write_text("a\n")
    spool.read_lines()
    spool_file.write_text("b\n")

    assert spool.read_lines() == ("a",)
    spool.remove_lines(rejected=[])
    assert spool.read_lines() == ()
    assert spool.read_lines() == ("b",)


def test_rejected_lines_are_written_to_a_separate_file(spool_file):
    spool = FileSpool(spool_file)
    spool_file.write_bytes(b"a\n\xff{torn")
    spool.read_lines()

    lines = spool.read_lines()
    spool.remove_lines(rejected=lines[1:])

    assert spool_file.with_suffix(".rejected").read_text() == "\ufffd{torn\n"


def test_no_lines_are_returned_without_a_spool_file(spool_file):
    assert FileSpool(spool_file).read_lines() == ()


def test_store_syncs_the_file_to_the_disk_at_every_commit(store):
    assert store._database.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
