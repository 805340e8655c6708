# SPDX-License-Identifier: Apache-2.0
"""A secret's exchange where Ansible runs, cut short at any step."""

import stat

import pytest
from tests.modules import load
from tests.roles.catalogue import ROOT

exchange = load(ROOT / "library/secret_exchange.py")

OLD = "a" * 64 + "\n"


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "munge_key"
    found.write_text(OLD)
    return found


def test_the_new_secret_is_like_the_old_one_which_is_kept(path):
    assert exchange.begin(path, check=False)

    new = path.read_text()
    assert (len(new), new != OLD, new.strip().isalnum()) == (len(OLD), True, True)
    assert exchange.old(path).read_text() == OLD


def test_files_are_for_their_owner_alone(path):
    exchange.begin(path, check=False)

    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_an_exchange_that_is_under_way_keeps_its_new_secret(path):
    exchange.begin(path, check=False)
    new = path.read_text()

    assert not exchange.begin(path, check=False)

    assert path.read_text() == new
    assert exchange.old(path).read_text() == OLD


def test_one_that_ended_before_there_was_a_new_secret_goes_on(path):
    exchange.old(path).write_text(OLD)

    assert exchange.begin(path, check=False)

    assert path.read_text() != OLD


def test_nothing_of_the_old_one_is_left_at_the_end(path):
    exchange.begin(path, check=False)
    new = path.read_text()

    assert exchange.end(path, check=False)
    assert not exchange.end(path, check=False)

    assert [file.read_text() for file in path.parent.iterdir()] == [new]


def test_check_mode_writes_nothing(path):
    assert exchange.begin(path, check=True)
    assert not exchange.end(path, check=True)
    assert [file.read_text() for file in path.parent.iterdir()] == [OLD]
