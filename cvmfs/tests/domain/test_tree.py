# SPDX-License-Identifier: Apache-2.0
"""Tests of the parser of a catalog's rows, and of the objects that store a file's content."""

from __future__ import annotations

import hashlib
import stat

import pytest

from gridstead_cvmfs.domain.objects import HashAlgorithm, ObjectKind, ObjectName
from gridstead_cvmfs.domain.tree import (
    CHUNKED,
    EXTERNAL,
    HIDDEN,
    FileChunk,
    Row,
    chunks_of_file,
    parent_of,
    parse_entry,
    path_key,
    single_chunk,
)
from gridstead_cvmfs.errors import RepositoryUntrusted

# Flag 4 is a file. Bits 8 to 10 of the flags are the hash algorithm, bits 11 to 13 the compression.
# The upper 32 bits of ``hardlinks`` are the link group, the lower 32 bits the number of links.
DIGEST = bytes(20)
ROW = Row(
    name="x", mode=0o100644, size=5, mtime=9, uid=1, gid=2,
    hardlinks=1, flags=4, hash=DIGEST, symlink=None
)  # fmt: skip
NAME = ObjectName("00" * 20, HashAlgorithm.SHA1, ObjectKind.FILE)


def entry(**fields):
    """Return the entry of ROW in the directory /a. ``fields`` replace fields of ROW."""
    return parse_entry(ROW._replace(**fields), "/a")


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "../x"}, {"name": ".."}, {"name": "."}, {"name": "a/b"}, {"name": "a\0"},
        {"name": 7}, {"symlink": "a\0b"}, {"symlink": b"x"}, {"mode": 0}, {"mode": "x"},
        {"mode": None}, {"mode": -1}, {"size": -1}, {"size": 2**63}, {"size": 1.5}, {"uid": None},
        {"gid": -4}, {"hardlinks": "2"}, {"flags": None},
    ],
)  # fmt: skip
def test_an_invalid_row_is_refused(fields):
    with pytest.raises(RepositoryUntrusted):
        entry(**fields)


def test_an_entry_has_the_attributes_of_its_row():
    file = entry(hardlinks=7 << 32 | 3)

    attributes = (file.name, file.size, file.mtime, file.uid, file.gid, file.links)
    assert attributes == ("x", 5, 9, 1, 2, 3)
    assert file.is_file
    assert not any((file.is_directory, file.is_link, file.is_hidden, file.is_chunked))
    assert entry(flags=4 | HIDDEN).is_hidden
    assert entry(mode=stat.S_IFIFO | 0o600).mode == stat.S_IFIFO | 0o600
    assert entry(mtime=-5).mtime == 0
    assert entry(mtime="x").mtime == 0


def test_the_size_of_a_symbolic_link_is_the_size_of_its_target():
    assert entry(mode=0o120777, symlink="gr\u00fcn", size=4096).size == 5  # UTF-8 bytes


def test_files_of_one_link_group_in_one_directory_have_the_same_inode():
    first = entry(name="x", hardlinks=7 << 32 | 2)
    second = entry(name="y", hardlinks=7 << 32 | 2)
    in_other_directory = parse_entry(ROW._replace(hardlinks=7 << 32 | 2), "/b")
    other_files = (entry(), entry(name="y"), entry(name=""))

    assert first.inode == second.inode
    assert len({file.inode for file in (first, in_other_directory, *other_files)}) == 5
    assert min(first.inode, in_other_directory.inode) > 1


@pytest.mark.parametrize(("compression", "is_compressed"), [(0, True), (1, False)])
def test_the_content_of_a_small_file_is_one_object(compression, is_compressed):
    (chunk,) = single_chunk(entry(flags=4 | compression << 11))

    assert chunk == FileChunk(name=NAME, offset=0, size=5, is_compressed=is_compressed)
    assert single_chunk(entry(flags=4 | 2 << 8))[0].name.algorithm is HashAlgorithm.SHAKE128


def test_an_empty_file_has_no_content():
    assert single_chunk(entry(size=0, hash=None)) == ()


@pytest.mark.parametrize(
    "fields", [{"flags": 4 | EXTERNAL}, {"flags": 4 | 2 << 11}, {"hash": None}, {"hash": b"1"}]
)
def test_content_that_is_not_available_is_refused(fields):
    with pytest.raises(RepositoryUntrusted):
        single_chunk(entry(**fields))


def test_the_chunks_of_a_file_become_its_pieces():
    first, second = chunks_of_file(entry(flags=4 | CHUNKED), ((0, 3, DIGEST), (3, 2, DIGEST)))

    assert (first.offset, first.size, second.offset, second.size) == (0, 3, 3, 2)
    assert first.name.kind is ObjectKind.CHUNK


@pytest.mark.parametrize(
    "rows",
    [
        (), ((0, 3, DIGEST),), ((1, 4, DIGEST),), ((0, 3, DIGEST), (2, 3, DIGEST)),
        ((0, 3, DIGEST), (4, 1, DIGEST)),
        ((0, 6, DIGEST),), ((0, 5, None),), (("0", 5, DIGEST),), ((0, -5, DIGEST),),
    ],
)  # fmt: skip
def test_chunks_that_do_not_form_the_file_are_refused(rows):
    with pytest.raises(RepositoryUntrusted):
        chunks_of_file(entry(flags=4 | CHUNKED), rows)


@pytest.mark.parametrize(("path", "parent"), [("/a/b", "/a"), ("/a", ""), ("", "")])
def test_the_parent_of_a_path_is_its_directory(path, parent):
    assert parent_of(path) == parent


@pytest.mark.parametrize("path", ["", "/a/b", "/gr\u00fcn", "/\udcff"])
def test_the_key_of_a_path_is_the_two_halves_of_its_md5(path):
    digest = hashlib.md5(path.encode("utf-8", "surrogateescape")).digest()

    halves = tuple(int.from_bytes(half, "little", signed=True) for half in (digest[:8], digest[8:]))
    assert path_key(path) == halves
