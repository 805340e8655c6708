# SPDX-License-Identifier: Apache-2.0
"""Directories of users on a real file system. Most tests need root to change owners."""

import os
import stat
import subprocess
import sys

import pytest

from gridstead.adapters.users.user_directories import Quota, SharedStorage, StoragePaths
from gridstead.domain.supervisor.submission import GridUser
from gridstead.errors import ConfigError

ADDRESS = "0x" + "ab" * 20
UID, GID = 200_001, 100_000

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change owners")


@pytest.fixture
def paths(tmp_path):
    paths = StoragePaths(
        homes=tmp_path / "homes",
        shared_cache=tmp_path / "shared",
        persistent_cache=tmp_path / "keep",
    )
    for parent in (paths.homes, paths.shared_cache, paths.persistent_cache):
        parent.mkdir()
    return paths


@pytest.fixture
def storage(paths):
    return SharedStorage(paths, is_mounted=lambda _: True)


USER = GridUser(address=ADDRESS, uid=UID, gid=GID)


def test_no_directory_is_created_while_the_storage_is_not_mounted(paths):
    with pytest.raises(ConfigError, match="not a mount point"):
        SharedStorage(paths).ensure(USER)

    assert list(paths.homes.iterdir()) == []


@as_root
def test_a_directory_of_another_user_is_refused(paths, storage):
    home = paths.homes / ADDRESS
    home.mkdir()
    os.chown(home, 4711, 4711)

    with pytest.raises(ConfigError, match="4711"):
        storage.ensure(USER)

    assert home.stat().st_uid == 4711


@as_root
def test_a_symlink_is_not_followed(paths, storage, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (paths.homes / ADDRESS).symlink_to(victim)

    with pytest.raises(ConfigError):
        storage.ensure(USER)

    assert victim.stat().st_uid == 0


@as_root
def test_home_and_caches_are_accessible_to_the_user_only(paths, storage):
    assert storage.ensure(USER)

    for place in (
        paths.homes / ADDRESS,
        paths.shared_cache / str(UID),
        paths.persistent_cache / f"user-{UID}",
    ):
        status = place.stat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (UID, GID, 0o700)


@as_root
def test_a_second_call_creates_nothing(storage):
    storage.ensure(USER)

    assert not storage.ensure(USER)


@as_root
def test_cap_chown_is_the_only_needed_capability(paths):
    """As in the unit, the service cannot read directories that belong to a user."""
    places = f"homes=Path({str(paths.homes)!r}), shared_cache=Path({str(paths.shared_cache)!r})"
    ensure = f"""
from pathlib import Path
from gridstead.adapters.users.user_directories import SharedStorage, StoragePaths
from gridstead.domain.supervisor.submission import GridUser
paths = StoragePaths({places}, persistent_cache=Path({str(paths.persistent_cache)!r}))
storage = SharedStorage(paths, is_mounted=lambda _: True)
print([storage.ensure(GridUser(address={ADDRESS!r}, uid={UID}, gid={GID})) for _ in range(2)])
"""
    argv = ["setpriv", "--bounding-set=-all,+chown", sys.executable, "-c", ensure]

    done = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert done.stdout == "[True, False]\n"


@as_root
def test_a_directory_that_a_crash_left_to_root_gets_its_owner(paths, storage):
    (paths.homes / ADDRESS).mkdir(mode=0o755)

    assert storage.ensure(USER)
    assert (paths.homes / ADDRESS).stat().st_uid == UID


@pytest.fixture
def storage_with_quota(paths, tmp_path):
    """Return a storage with a quota program that records its arguments, and the file of records."""
    notes = tmp_path / "notes"
    command = ("/bin/sh", "-c", f'echo "$@" >>{notes}', "quota", "-S", "{bytes}", "{directory}")
    return SharedStorage(
        paths, quota=Quota(command=command, size_bytes=5 << 30), is_mounted=lambda _: True
    ), notes


@as_root
def test_each_directory_of_a_user_gets_a_quota(paths, storage_with_quota):
    storage, notes = storage_with_quota

    storage.ensure(USER)

    places = (
        paths.homes / ADDRESS,
        paths.shared_cache / str(UID),
        paths.persistent_cache / f"user-{UID}",
    )
    assert notes.read_text().splitlines() == [f"-S {5 << 30} {place}" for place in places]


@as_root
def test_an_existing_directory_gets_a_quota(storage, storage_with_quota):
    storage.ensure(USER)
    again, notes = storage_with_quota

    assert not again.ensure(USER)
    assert len(notes.read_text().splitlines()) == 3


@as_root
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("/bin/sh", "-c", "echo no such file system >&2; exit 1"), "no such file system"),
        (("/no/such/program",), "No such file"),
    ],
)
def test_the_error_contains_the_output_of_a_failed_quota_program(paths, command, message):
    storage = SharedStorage(
        paths, quota=Quota(command=command, size_bytes=1), is_mounted=lambda _: True
    )

    with pytest.raises(ConfigError, match=message):
        storage.ensure(USER)
