# SPDX-License-Identifier: Apache-2.0
"""The kernel limit that the first lab raises and the last lab restores."""

import pytest

from gridstead_lab.limits import LAB_LIMIT, raise_limit, restore


@pytest.fixture
def limit_files(tmp_path):
    """Return the files of the limit and of the saved limit, and the folder of the labs."""
    limit, saved_limit, labs = tmp_path / "limit", tmp_path / "saved", tmp_path / "labs"
    limit.write_text("128")
    (labs / "gs0001").mkdir(parents=True)
    return limit, saved_limit, labs


def test_the_last_lab_restores_the_original_limit(limit_files):
    limit, saved_limit, labs = limit_files
    raise_limit(limit, saved_limit)
    raise_limit(limit, saved_limit)
    assert int(limit.read_text()) == LAB_LIMIT
    (labs / "gs0001").rmdir()
    restore(labs, limit, saved_limit)

    assert limit.read_text() == "128"
    assert not saved_limit.exists()


def test_the_limit_stays_raised_while_a_lab_exists(limit_files):
    limit, saved_limit, labs = limit_files
    raise_limit(limit, saved_limit)
    restore(labs, limit, saved_limit)

    assert int(limit.read_text()) == LAB_LIMIT


def test_a_sufficient_limit_is_not_changed(limit_files):
    limit, saved_limit, labs = limit_files
    limit.write_text("8192")
    raise_limit(limit, saved_limit)
    restore(labs, limit, saved_limit)

    assert limit.read_text() == "8192"


def test_a_limit_that_was_changed_later_is_not_restored(limit_files):
    limit, saved_limit, labs = limit_files
    raise_limit(limit, saved_limit)
    limit.write_text("4096")
    (labs / "gs0001").rmdir()
    restore(labs, limit, saved_limit)

    assert limit.read_text() == "4096"
