# SPDX-License-Identifier: Apache-2.0
"""Tests of the creation of user directories, and of its retries."""

from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs
from tests.fakes.store import FakeClock
from tests.fakes.users import FakeDirectory, FakeStorage

from gridstead.domain.supervisor.submission import GridUser
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.services.users.user_directories import UserDirectoryMaker

CUSTOMERS = ["0x" + "33" * 20, "0x" + "44" * 20, "0x" + "55" * 20]


def addresses_of(users):
    return [user.address for user in users]


def test_users_that_are_not_wallet_users_get_no_directories():
    storage = FakeStorage()
    wallet_user = GridUser(address=CUSTOMERS[0], uid=200_001, gid=100_000)
    uid_out_of_range = GridUser(address=CUSTOMERS[1], uid=0, gid=0)
    name_without_address = GridUser(address="root", uid=200_002, gid=100_000)
    users = (wallet_user, uid_out_of_range, name_without_address)
    directory = FakeDirectory({user.address: user for user in users})
    maker = UserDirectoryMaker(directory, storage, WalletIdRange(), clock=FakeClock())
    maker.tick()
    maker.tick()

    assert storage.created == [wallet_user]


@dataclass
class DirectorySetup:
    """A maker of user directories for three users. Its storage fails for the first user."""

    storage: FakeStorage
    clock: FakeClock
    maker: UserDirectoryMaker


@pytest.fixture
def directory_setup():
    storage = FakeStorage(failing={CUSTOMERS[0]})
    clock = FakeClock()
    directory = FakeDirectory()
    directory.ensure_users(CUSTOMERS)
    maker = UserDirectoryMaker(directory, storage, WalletIdRange(), clock=clock)
    return DirectorySetup(storage=storage, clock=clock, maker=maker)


def test_failure_for_one_user_does_not_affect_other_users(directory_setup):
    directory_setup.maker.tick()

    assert addresses_of(directory_setup.storage.created) == CUSTOMERS[1:]


def test_failed_user_is_retried_after_10_seconds(directory_setup):
    storage = directory_setup.storage
    directory_setup.maker.tick()
    directory_setup.maker.tick()
    assert storage.calls.count(CUSTOMERS[0]) == 1

    directory_setup.clock.advance(10)
    directory_setup.maker.tick()
    assert storage.calls.count(CUSTOMERS[0]) == 2

    storage.failing.clear()
    directory_setup.clock.advance(10)
    directory_setup.maker.tick()
    assert storage.created[-1].address == CUSTOMERS[0]


def test_failed_user_is_retried_after_the_clock_was_set_back(directory_setup):
    storage = directory_setup.storage
    directory_setup.maker.tick()
    directory_setup.clock.advance(-3600)
    directory_setup.maker.tick()

    assert storage.calls.count(CUSTOMERS[0]) == 2


def test_repeated_failure_of_a_user_is_logged_once(directory_setup):
    with capture_logs() as lines:
        directory_setup.maker.tick()
        directory_setup.clock.advance(10)
        directory_setup.maker.tick()

    failures = [line["user"] for line in lines if line["event"] == "directories_failed"]
    assert failures == [CUSTOMERS[0]]
