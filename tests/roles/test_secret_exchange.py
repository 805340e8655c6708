# SPDX-License-Identifier: Apache-2.0
"""Module secret_exchange replaces a secret on the control machine and retains the old secret.

An exchange lasts from ``begin``, which writes the new secret, to ``end``, which removes the old
secret.
"""

import stat

import pytest
from ansible_collections.gridstead.site.plugins.modules import secret_exchange as exchange
from tests.roles.content import texts_below

OLD = "a" * 64 + "\n"


@pytest.fixture
def path(tmp_path):
    """The file of a secret."""
    secret_file = tmp_path / "munge_key"
    secret_file.write_text(OLD)
    return secret_file


def test_the_new_secret_has_the_old_length_and_the_old_secret_is_retained(path):
    assert exchange.begin(path, check_mode=False)

    new_secret = path.read_text()
    assert new_secret != OLD
    assert len(new_secret) == len(OLD)
    assert new_secret.strip().isalnum()
    assert exchange.old_path(path).read_text() == OLD


def test_only_the_owner_can_read_the_files(path):
    exchange.begin(path, check_mode=False)

    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_second_begin_does_not_replace_the_new_secret(path):
    exchange.begin(path, check_mode=False)
    new = path.read_text()

    assert not exchange.begin(path, check_mode=False)

    assert path.read_text() == new
    assert exchange.old_path(path).read_text() == OLD


def test_an_exchange_interrupted_before_it_wrote_the_new_secret_is_continued(path):
    exchange.old_path(path).write_text(OLD)

    assert exchange.begin(path, check_mode=False)

    assert path.read_text() != OLD


def test_the_old_secret_is_removed_at_the_end(path):
    exchange.begin(path, check_mode=False)
    new = path.read_text()

    assert exchange.end(path, check_mode=False)
    assert not exchange.end(path, check_mode=False)

    assert texts_below(path.parent) == {path.name: new}


def test_check_mode_writes_nothing(path):
    assert exchange.begin(path, check_mode=True)
    assert not exchange.end(path, check_mode=True)
    assert texts_below(path.parent) == {path.name: OLD}
