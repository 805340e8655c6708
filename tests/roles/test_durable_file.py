# SPDX-License-Identifier: Apache-2.0
"""Files that modules write are always complete, and are never readable by other users."""

import os
import stat

import pytest
from ansible_collections.gridstead.site.plugins.module_utils import durable_file


def test_the_file_has_content_mode_and_owner_and_no_temporary_file_remains(tmp_path):
    place = tmp_path / "a/b/file"

    durable_file.write_whole(place, b"new", mode=0o640, owner=1, group=2)

    now = place.stat()
    assert place.read_bytes() == b"new"
    assert (stat.S_IMODE(now.st_mode), now.st_uid, now.st_gid) == (0o640, 1, 2)
    assert list(place.parent.iterdir()) == [place]


def test_the_old_file_is_complete_until_the_new_file_is(tmp_path, monkeypatch):
    place = tmp_path / "file"
    place.write_bytes(b"old")
    seen = []

    def no_room(descriptor):
        temporary = tmp_path / ".file.new"
        seen.append((temporary.read_bytes(), place.read_bytes()))
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="No space left"):
        durable_file.write_whole(place, b"new")

    assert seen == [(b"new", b"old")]
    assert place.read_bytes() == b"old"


def test_leftover_temporary_files_and_links_are_replaced(tmp_path):
    place, other = tmp_path / "file", tmp_path / "other"
    other.write_bytes(b"another's")
    place.with_name(".file.new").symlink_to(other)
    place.symlink_to(other)

    durable_file.write_whole(place, b"new")

    assert (place.is_symlink(), place.read_bytes(), other.read_bytes()) == (
        False,
        b"new",
        b"another's",
    )


def test_no_other_user_can_read_the_file_before_it_is_complete(tmp_path, monkeypatch):
    modes = []
    change = os.fchmod
    monkeypatch.setattr(
        os, "fchmod", lambda file, mode: modes.append(os.fstat(file).st_mode) or change(file, mode)
    )

    durable_file.write_whole(tmp_path / "file", b"secret", mode=0o644)

    assert [stat.S_IMODE(mode) for mode in modes] == [0o600]
