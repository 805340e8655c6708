# SPDX-License-Identifier: Apache-2.0
"""Tests of the files with the records of `gridstead provider` runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridstead.adapters.site.run_records import RunRecordFiles
from gridstead.domain.site.playbook import RunOutcome
from gridstead.domain.site.run_record import Circumstances, FailedTask, RunRecord
from gridstead.errors import UnexpectedOutput


def record(number):
    """Return the record of a failed `gridstead provider apply` that started at ``number`` s."""
    circumstances = Circumstances(
        by="me@here", commit="abc", started_at=number, ended_at=number + 1
    )
    return RunRecord(
        id=f"{number}-apply",
        command="apply",
        circumstances=circumstances,
        inventory=None,
        limit=None,
        tags=None,
        outcome=RunOutcome.FAILED,
        changed={"a": ("x", "y")},
        failed=(FailedTask(host="a", task="z", message="no"),),
        waiting={"a": ("w",)},
    )


def test_records_are_read_newest_first(tmp_path):
    records = RunRecordFiles(tmp_path / "state" / "runs")
    records.add(record(1))
    records.add(record(2))

    assert records.all() == (record(2), record(1))


def test_records_are_readable_only_by_their_owner(tmp_path):
    folder = tmp_path / "runs"
    RunRecordFiles(folder).add(record(1))

    modes = [path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())]
    assert modes == [0o700, 0o600]


def test_two_records_with_the_same_id_are_read_newest_first(tmp_path):
    first_record = record(1)
    second_record = replace(first_record, outcome=RunOutcome.SUCCEEDED)
    records = RunRecordFiles(tmp_path)
    records.add(first_record)
    records.add(second_record)

    assert records.all() == (second_record, first_record)


def test_damaged_record_is_refused(tmp_path):
    (tmp_path / "1-apply.json").write_text("{}")

    with pytest.raises(UnexpectedOutput, match="1-apply"):
        RunRecordFiles(tmp_path).all()


def test_missing_folder_contains_no_records(tmp_path):
    assert RunRecordFiles(tmp_path / "missing").all() == ()
