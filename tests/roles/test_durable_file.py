# SPDX-License-Identifier: Apache-2.0
"""Tests of durable_file.write_whole, which replaces a file by a new file at once.

Readers see the whole old content or the whole new content. The new file is private until it is
complete.
"""

import errno
import os
import stat

import pytest
from ansible_collections.gridstead.site.plugins.module_utils import durable_file


def test_the_file_has_content_mode_and_owner_and_no_temporary_file_remains(tmp_path):
    path = tmp_path / "a/b/file"

    durable_file.write_whole(path, b"new", mode=0o640, owner=1, group=2)

    status = path.stat()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert status.st_uid == 1
    assert status.st_gid == 2
    assert list(path.parent.iterdir()) == [path]


def test_the_old_file_is_unchanged_if_the_new_file_cannot_be_completed(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    contents = []

    def fail(descriptor):
        contents.append((tmp_path / ".file.new").read_bytes())
        contents.append(path.read_bytes())
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        durable_file.write_whole(path, b"new")

    assert contents == [b"new", b"old"]
    assert path.read_bytes() == b"old"


def test_the_folder_is_flushed_after_the_rename_of_the_new_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    contents_at_flush = []
    fsync = os.fsync

    def record_and_flush(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            contents_at_flush.append(path.read_bytes())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record_and_flush)

    durable_file.write_whole(path, b"new")

    assert contents_at_flush == [b"new"]


def test_leftover_temporary_files_and_links_are_replaced(tmp_path):
    path = tmp_path / "file"
    other_file = tmp_path / "other"
    other_file.write_bytes(b"another's")
    path.with_name(".file.new").symlink_to(other_file)
    path.symlink_to(other_file)

    durable_file.write_whole(path, b"new")

    assert not path.is_symlink()
    assert path.read_bytes() == b"new"
    assert other_file.read_bytes() == b"another's"


def test_no_other_user_can_read_the_file_before_it_is_complete(tmp_path, monkeypatch):
    modes_before = []
    fchmod = os.fchmod

    def record_and_change(file, mode):
        modes_before.append(stat.S_IMODE(os.fstat(file).st_mode))
        fchmod(file, mode)

    monkeypatch.setattr(os, "fchmod", record_and_change)

    durable_file.write_whole(tmp_path / "file", b"secret", mode=0o644)

    assert modes_before == [0o600]
