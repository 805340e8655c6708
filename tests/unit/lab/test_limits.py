# SPDX-License-Identifier: Apache-2.0
"""The kernel limit that the first lab raises and the last lab restores."""

import pytest

from gridstead_lab.limits import LAB_LIMIT, raise_limit, restore


@pytest.fixture
def machine(tmp_path):
    """Return the file of the limit, the file of the original limit, and the folder of the labs."""
    limit, original, labs = tmp_path / "limit", tmp_path / "saved", tmp_path / "labs"
    limit.write_text("128")
    (labs / "gs0001").mkdir(parents=True)
    return limit, original, labs


def test_the_last_lab_restores_the_original_limit(machine):
    limit, original, labs = machine
    raise_limit(limit, original)
    raise_limit(limit, original)
    assert int(limit.read_text()) == LAB_LIMIT
    (labs / "gs0001").rmdir()
    restore(labs, limit, original)

    assert limit.read_text() == "128"
    assert not original.exists()


def test_the_limit_stays_raised_while_a_lab_exists(machine):
    limit, original, labs = machine
    raise_limit(limit, original)
    restore(labs, limit, original)

    assert int(limit.read_text()) == LAB_LIMIT


def test_a_sufficient_limit_is_not_changed(machine):
    limit, original, labs = machine
    limit.write_text("8192")
    raise_limit(limit, original)
    restore(labs, limit, original)

    assert limit.read_text() == "8192"


def test_a_limit_that_was_changed_later_is_not_restored(machine):
    limit, original, labs = machine
    raise_limit(limit, original)
    limit.write_text("4096")
    (labs / "gs0001").rmdir()
    restore(labs, limit, original)

    assert limit.read_text() == "4096"
