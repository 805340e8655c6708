# SPDX-License-Identifier: Apache-2.0
"""LocalRunner and LocalAccounts, with programs, users and directories of this host."""

import os
import pwd

import pytest

from gridstead.adapters.slurm.local import LocalAccounts, LocalRunner
from gridstead.adapters.slurm.runner import Command, CommandResult
from gridstead.adapters.users.storage import UserStorage
from gridstead.domain.supervisor.submission import GridUser
from gridstead.errors import SchedulerUnavailable

ADDRESS = f"0x{1:040x}"


class FakeSlurmCommands:
    """A runner with fakes of scontrol and sacctmgr.

    After the first association was added, sacctmgr lists it.
    """

    def __init__(self):
        self.added = []
        self.reconfigure_count = 0
        self.run_count = 0

    def run(self, command):
        self.run_count += 1
        if "add" in command.argv:
            self.added.append(command.argv)
        if command.argv == ("scontrol", "reconfigure"):
            self.reconfigure_count += 1
        associations = f"{ADDRESS}|grid\n" if self.added else ""
        return CommandResult(exit_status=0, stdout=associations, stderr="")


@pytest.fixture
def storage(tmp_path):
    storage = UserStorage(
        homes=tmp_path / "homes",
        shared_cache=tmp_path / "shared",
        persistent_cache=tmp_path / "kept",
    )
    for path in (storage.homes, storage.shared_cache, storage.persistent_cache):
        path.mkdir()
    return storage


@pytest.fixture
def user(storage):
    """Return a user whose directories exist and belong to the user."""
    user = GridUser(address=ADDRESS, uid=os.getuid(), gid=os.getgid())
    for path in storage.directories_of(user):
        path.mkdir()
    return user


@pytest.fixture
def accounts(storage):
    return LocalAccounts(runner=FakeSlurmCommands(), storage=storage, account="grid")


def test_a_command_gets_only_its_own_environment():
    command = Command(argv=("/usr/bin/env",), environment={"A": "b c"})

    assert LocalRunner().run(command) == CommandResult(exit_status=0, stdout="A=b c\n", stderr="")


def test_a_command_gets_its_input_and_returns_its_exit_status():
    command = Command(argv=("/bin/sh", "-c", "cat; printf '\\377' >&2; exit 3"), stdin="é")

    assert LocalRunner().run(command) == CommandResult(exit_status=3, stdout="é", stderr="\ufffd")


def test_a_missing_program_raises_scheduler_unavailable():
    with pytest.raises(SchedulerUnavailable):
        LocalRunner().run(Command(argv=("/no/such/program",)))


def test_user_returns_the_account_with_a_name_or_none(accounts):
    root = pwd.getpwuid(0)

    assert accounts.user(root.pw_name) == GridUser(address=root.pw_name, uid=0, gid=root.pw_gid)
    assert accounts.user(ADDRESS) is None


def test_no_directory_of_a_complete_user_is_missing(accounts, user):
    assert accounts.missing_directories(user) == ()


def test_a_removed_directory_counts_as_missing(accounts, storage, user):
    (storage.homes / ADDRESS).rmdir()

    assert len(accounts.missing_directories(user)) == 1


def test_a_symlink_instead_of_a_directory_counts_as_missing(accounts, storage, user):
    home = storage.homes / ADDRESS
    home.rmdir()
    home.symlink_to(storage.shared_cache)

    assert len(accounts.missing_directories(user)) == 1


def test_a_directory_of_another_user_counts_as_missing(accounts, storage, user):
    other_user = GridUser(address=ADDRESS, uid=user.uid + 1, gid=user.gid)
    # Both users have the home of this wallet. The caches of ``other_user`` do not exist yet.
    _home, *caches = storage.directories_of(other_user)
    for path in caches:
        path.mkdir()

    messages = accounts.missing_directories(other_user)

    assert len(messages) == 3  # the home and two caches
    for message in messages:
        assert f"belongs to uid {user.uid}" in message


def test_an_association_is_added_once_and_then_cached():
    runner = FakeSlurmCommands()
    accounts = LocalAccounts(runner=runner, storage=UserStorage(), account="grid")

    accounts.associate(ADDRESS)
    run_count = runner.run_count
    accounts.associate(ADDRESS)

    assert len(runner.added) == 1
    assert runner.run_count == run_count


def test_a_lost_association_is_added_again_before_slurmctld_is_reconfigured():
    runner = FakeSlurmCommands()
    accounts = LocalAccounts(runner=runner, storage=UserStorage(), account="grid")
    accounts.associate(ADDRESS)
    runner.added.clear()  # An older backup of the database was restored.

    accounts.reassociate(ADDRESS)

    assert len(runner.added) == 1
    assert runner.reconfigure_count == 1
