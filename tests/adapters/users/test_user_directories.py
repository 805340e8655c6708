# SPDX-License-Identifier: Apache-2.0
"""Tests of the directories of users on a real file system. Most tests need root."""

import os
import stat
import subprocess
import sys

import pytest

from gridstead.adapters.users.storage import UserStorage
from gridstead.adapters.users.user_directories import Quota, SharedStorage
from gridstead.domain.supervisor.submission import GridUser
from gridstead.errors import ConfigError

ADDRESS = "0x" + "ab" * 20
UID, GID = 200_001, 100_000

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change owners")


@pytest.fixture
def paths(tmp_path):
    """The existing parent directories of the users' directories."""
    paths = UserStorage(
        homes=tmp_path / "homes",
        shared_cache=tmp_path / "shared",
        persistent_cache=tmp_path / "keep",
    )
    for parent in (paths.homes, paths.shared_cache, paths.persistent_cache):
        parent.mkdir()
    return paths


@pytest.fixture
def storage(paths):
    """The storage, which regards each parent directory as mounted."""
    return SharedStorage(paths, is_mounted=lambda _: True)


USER = GridUser(address=ADDRESS, uid=UID, gid=GID)


def directories_of_user(paths):
    """Return the three directories that each user has."""
    return (
        paths.homes / ADDRESS,
        paths.shared_cache / str(UID),
        paths.persistent_cache / f"user-{UID}",
    )


def test_directories_are_not_created_on_unmounted_storage(paths):
    with pytest.raises(ConfigError, match="not a mount point"):
        SharedStorage(paths).ensure(USER)

    assert list(paths.homes.iterdir()) == []


@as_root
def test_directory_of_another_user_is_refused(paths, storage):
    home = paths.homes / ADDRESS
    home.mkdir()
    os.chown(home, 4711, 4711)

    with pytest.raises(ConfigError, match="4711"):
        storage.ensure(USER)

    assert home.stat().st_uid == 4711


@as_root
def test_symlink_is_refused_and_not_followed(paths, storage, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (paths.homes / ADDRESS).symlink_to(target)

    with pytest.raises(ConfigError):
        storage.ensure(USER)

    assert target.stat().st_uid == 0


@as_root
def test_home_and_caches_are_accessible_only_to_the_user(paths, storage):
    assert storage.ensure(USER)

    for directory in directories_of_user(paths):
        status = directory.stat()
        assert status.st_uid == UID
        assert status.st_gid == GID
        assert stat.S_IMODE(status.st_mode) == 0o700


@as_root
def test_second_call_of_ensure_creates_no_directory(storage):
    storage.ensure(USER)

    assert not storage.ensure(USER)


@as_root
def test_directories_can_be_created_with_cap_chown_alone(paths):
    """The service has no capability except CAP_CHOWN. It cannot read directories of users."""
    program = f"""
from pathlib import Path
from gridstead.adapters.users.storage import UserStorage
from gridstead.adapters.users.user_directories import SharedStorage
from gridstead.domain.supervisor.submission import GridUser
paths = UserStorage(
    homes=Path({str(paths.homes)!r}),
    shared_cache=Path({str(paths.shared_cache)!r}),
    persistent_cache=Path({str(paths.persistent_cache)!r}),
)
storage = SharedStorage(paths, is_mounted=lambda _: True)
user = GridUser(address={ADDRESS!r}, uid={UID}, gid={GID})
print(storage.ensure(user))
print(storage.ensure(user))
"""
    argv = ["setpriv", "--bounding-set=-all,+chown", sys.executable, "-c", program]

    result = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert result.stdout == "True\nFalse\n"


@as_root
def test_directory_that_root_owns_after_a_crash_is_given_to_the_user(paths, storage):
    (paths.homes / ADDRESS).mkdir(mode=0o755)

    assert storage.ensure(USER)
    assert (paths.homes / ADDRESS).stat().st_uid == UID


@pytest.fixture
def storage_with_quota(paths, tmp_path):
    """Return a storage with a quota program, and the file in which the program records calls."""
    call_log = tmp_path / "calls"
    # "quota" is the name of the program, $0.
    record_call = ("/bin/sh", "-c", f'echo "$@" >>{call_log}', "quota")
    quota = Quota(command=(*record_call, "-S", "{bytes}", "{directory}"), size_bytes=5 << 30)
    return SharedStorage(paths, quota=quota, is_mounted=lambda _: True), call_log


@as_root
def test_each_directory_of_a_user_gets_a_quota(paths, storage_with_quota):
    storage, call_log = storage_with_quota

    storage.ensure(USER)

    expected = [f"-S {5 << 30} {directory}" for directory in directories_of_user(paths)]
    assert call_log.read_text().splitlines() == expected


@as_root
def test_existing_directories_get_a_quota(storage, storage_with_quota):
    storage.ensure(USER)
    new_storage, call_log = storage_with_quota

    assert not new_storage.ensure(USER)
    assert len(call_log.read_text().splitlines()) == 3


@as_root
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("/bin/sh", "-c", "echo no such file system >&2; exit 1"), "no such file system"),
        (("/no/such/program",), "No such file"),
    ],
)
def test_error_contains_the_output_of_a_failed_quota_program(paths, command, message):
    quota = Quota(command=command, size_bytes=1)
    storage = SharedStorage(paths, quota=quota, is_mounted=lambda _: True)

    with pytest.raises(ConfigError, match=message):
        storage.ensure(USER)
