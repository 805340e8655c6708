# SPDX-License-Identifier: Apache-2.0
"""Tests of object names, of the hashes of objects, and of their decompression."""

from __future__ import annotations

import hashlib
import zlib

import pytest
from cvmfs.tests.domain.samples import INVALID_HASHES, ZERO
from hypothesis import given
from hypothesis import strategies as st

from gridstead_cvmfs.domain.objects import (
    BLOCK_BYTES,
    HashAlgorithm,
    ObjectKind,
    ObjectName,
    decompress,
    decompress_pieces,
    from_digest,
    new_hasher,
    parse_hash,
    parse_path,
)
from gridstead_cvmfs.errors import RepositoryUntrusted

NAME = ObjectName(ZERO, HashAlgorithm.SHA1, ObjectKind.FILE)
NAMES = st.builds(
    ObjectName,
    st.text("0123456789abcdef", min_size=40, max_size=40),
    st.sampled_from(HashAlgorithm),
    st.sampled_from(ObjectKind),
)


@given(NAMES)
def test_the_path_of_an_object_is_parsed_and_never_leaves_the_repository(name):
    assert parse_path(name.path) == name
    assert ".." not in name.path


@given(NAMES.filter(lambda name: name.kind is ObjectKind.FILE))
def test_a_formatted_hash_is_parsed_to_the_same_name(name):
    assert parse_hash(str(name), ObjectKind.FILE) == name


@pytest.mark.parametrize("invalid_hash", [*INVALID_HASHES, ""])
def test_a_text_that_is_not_a_hash_is_refused(invalid_hash):
    with pytest.raises(RepositoryUntrusted, match="not a content hash"):
        parse_hash(invalid_hash, ObjectKind.FILE)
    path = f"data/{invalid_hash[:2]}/{invalid_hash[2:]}"
    # A hash with suffix C is not a valid hash, but a path with this suffix is that of a catalog.
    if invalid_hash != ZERO + "C":
        assert parse_path(path) is None


@pytest.mark.parametrize(
    "path", ["", "data", "data/00", "data/00/../x", "data//00/" + "0" * 38, "data/txn/x",
             "data/00/" + "0" * 38 + "Z", "data/00/" + "0" * 38 + "\n",
             "data/00/" + "0" * 37 + "/", "data\\00\\" + "0" * 38],
)  # fmt: skip
def test_an_invalid_path_has_no_object_name(path):
    assert parse_path(path) is None


@pytest.mark.parametrize("digest", [b"", b"x" * 19, b"x" * 21, "x" * 20, None, 7])
def test_an_invalid_digest_is_refused(digest):
    with pytest.raises(RepositoryUntrusted):
        from_digest(digest, 0, ObjectKind.FILE)


def test_the_algorithm_numbers_in_catalogs_are_mapped_to_algorithms():
    names = [from_digest(b"\x01" * 20, code, ObjectKind.CHUNK) for code in range(3)]

    algorithms = [name.algorithm for name in names]
    assert algorithms == [HashAlgorithm.SHA1, HashAlgorithm.RMD160, HashAlgorithm.SHAKE128]
    with pytest.raises(RepositoryUntrusted):
        from_digest(b"\x01" * 20, 3, ObjectKind.CHUNK)


@pytest.mark.parametrize("algorithm", HashAlgorithm)
def test_digests_of_all_algorithms_have_the_same_length(algorithm):
    hasher = new_hasher(algorithm)
    hasher.update(b"a")
    hasher.update(b"b")

    assert len(hasher.hexdigest()) == 40


def test_a_small_object_is_decompressed_and_a_larger_one_is_refused():
    compressed_content = zlib.compress(b"content")
    name = parse_hash(hashlib.sha1(compressed_content).hexdigest(), ObjectKind.CERTIFICATE)

    assert decompress(name, [compressed_content[:3], compressed_content[3:]], limit=100) == (
        compressed_content,
        b"content",
    )
    with pytest.raises(RepositoryUntrusted, match="too large"):
        decompress(name, [compressed_content], limit=3)


def test_an_object_that_does_not_match_its_hash_is_refused():
    with pytest.raises(RepositoryUntrusted, match="does not match its hash") as error:
        decompress(
            ObjectName(ZERO, HashAlgorithm.SHA1, ObjectKind.CERTIFICATE),
            [b"four", b"teen bytes"],
            limit=100,
        )
    assert error.value.detail == "14 bytes"


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"not compressed", "cannot be read"),
        (zlib.compress(b"content")[:-1], "truncated or too large"),
        (zlib.compress(b"0" * 1000), "truncated or too large"),
    ],
)
def test_an_object_that_cannot_be_decompressed_within_the_limit_is_refused(stored, message):
    name = parse_hash(hashlib.sha1(stored).hexdigest(), ObjectKind.CERTIFICATE)

    with pytest.raises(RepositoryUntrusted, match=message):
        decompress(name, [stored], limit=100)


def test_content_that_is_not_compressed_cannot_be_decompressed():
    with pytest.raises(RepositoryUntrusted, match="cannot be read"):
        list(decompress_pieces(NAME, [b"plain"], limit=10))


def test_an_object_is_decompressed_in_blocks():
    content = bytes(range(256)) * (BLOCK_BYTES // 200)  # about 1.3 blocks
    compressed_content = zlib.compress(content)
    pieces = [
        compressed_content[:100],
        compressed_content[100:],
        b"bytes after the end are ignored",
    ]

    blocks = list(decompress_pieces(NAME, pieces, limit=len(content)))

    assert b"".join(blocks) == content
    assert max(len(block) for block in blocks) <= BLOCK_BYTES


def test_an_object_is_refused_as_soon_as_it_exceeds_its_limit():
    pieces = decompress_pieces(NAME, [zlib.compress(bytes(3 * BLOCK_BYTES))], limit=BLOCK_BYTES)

    assert next(pieces) == bytes(BLOCK_BYTES)
    with pytest.raises(RepositoryUntrusted, match="too large"):
        next(pieces)


@pytest.mark.parametrize("compressed_content", [b"", zlib.compress(b"content")[:-1]])
def test_a_truncated_object_is_refused_at_its_end(compressed_content):
    with pytest.raises(RepositoryUntrusted, match="truncated"):
        list(decompress_pieces(NAME, [compressed_content], limit=10))
