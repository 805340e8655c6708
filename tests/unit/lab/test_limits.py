# SPDX-License-Identifier: Apache-2.0
"""The kernel limit that the first lab raises and the last lab restores."""

import pytest

from gridstead_lab.limits import LAB_LIMIT, raise_limit, restore


@pytest.fixture
def machine(tmp_path):
    limit, saved, labs = tmp_path / "limit", tmp_path / "saved", tmp_path / "labs"
    limit.write_text("128")
    (labs / "gs0001").mkdir(parents=True)
    return limit, saved, labs


def test_the_last_lab_restores_the_original_limit(machine):
    limit, saved, labs = machine
    raise_limit(limit, saved)
    raise_limit(limit, saved)
    assert int(limit.read_text()) == LAB_LIMIT
    (labs / "gs0001").rmdir()
    restore(labs, limit, saved)

    assert limit.read_text() == "128"
    assert not saved.exists()


def test_the_limit_stays_raised_while_a_lab_exists(machine):
    limit, saved, labs = machine
    raise_limit(limit, saved)
    restore(labs, limit, saved)

    assert int(limit.read_text()) == LAB_LIMIT


def test_a_sufficient_limit_is_not_changed(machine):
    limit, saved, labs = machine
    limit.write_text("8192")
    raise_limit(limit, saved)
    restore(labs, limit, saved)

    assert limit.read_text() == "8192"


def test_a_limit_that_was_changed_later_is_not_restored(machine):
    limit, saved, labs = machine
    raise_limit(limit, saved)
    limit.write_text("4096")
    (labs / "gs0001").rmdir()
    restore(labs, limit, saved)

    assert limit.read_text() == "4096"
