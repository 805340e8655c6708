# SPDX-License-Identifier: Apache-2.0
import pytest

from gridstead_lab.limits import ENOUGH, give_back, make_room


@pytest.fixture
def machine(tmp_path):
    limit, noted, labs = tmp_path / "limit", tmp_path / "noted", tmp_path / "labs"
    limit.write_text("128")
    (labs / "gs0001").mkdir(parents=True)
    return limit, noted, labs


def test_the_last_lab_gives_back_what_the_first_one_found(machine):
    limit, noted, labs = machine
    make_room(limit, noted)
    make_room(limit, noted)
    assert int(limit.read_text()) == ENOUGH
    (labs / "gs0001").rmdir()
    give_back(labs, limit, noted)

    assert limit.read_text() == "128"
    assert not noted.exists()


def test_the_limit_stays_while_a_lab_stands(machine):
    limit, noted, labs = machine
    make_room(limit, noted)
    give_back(labs, limit, noted)

    assert int(limit.read_text()) == ENOUGH


def test_a_limit_that_is_high_enough_is_left_alone(machine):
    limit, noted, labs = machine
    limit.write_text("8192")
    make_room(limit, noted)
    give_back(labs, limit, noted)

    assert limit.read_text() == "8192"


def test_a_limit_that_somebody_changed_since_is_left_alone(machine):
    limit, noted, labs = machine
    make_room(limit, noted)
    limit.write_text("4096")
    (labs / "gs0001").rmdir()
    give_back(labs, limit, noted)

    assert limit.read_text() == "4096"
