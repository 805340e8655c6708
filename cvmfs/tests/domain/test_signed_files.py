# SPDX-License-Identifier: Apache-2.0
"""Tests of the parsers of manifests and whitelists."""

from __future__ import annotations

import hashlib

import pytest
from cvmfs.tests.domain.samples import INVALID_HASHES, manifest, signed_file

from gridstead_cvmfs.domain.objects import HashAlgorithm
from gridstead_cvmfs.domain.signed_files import parse_signed_file, parse_whitelist
from gridstead_cvmfs.errors import RepositoryUntrusted

# Lines of a whitelist: time of issue, time of expiry, name of the repository, fingerprint of a
# certificate.
WHITELIST = [
    "20270101000000",
    "E20270131000000",
    "Na.b",
    ":".join(["0A"] * 20) + "-shake128 # somebody",
]


def test_a_manifest_is_parsed():
    parsed_manifest = manifest(H="2" * 40, M=None)

    assert (
        parsed_manifest.name,
        parsed_manifest.revision,
        parsed_manifest.published_at,
        parsed_manifest.collectable,
    ) == ("a.b", 7, 9, True)
    assert (parsed_manifest.catalog.path, parsed_manifest.history.path) == (
        "data/00/" + "0" * 38 + "C",
        "data/22/" + "2" * 38 + "H",
    )
    assert parsed_manifest.metainfo is None
    assert parsed_manifest.signed_file.signature == b"signature\n--\n\x00"


def test_optional_and_unknown_fields_of_a_manifest_are_accepted():
    assert manifest(T=None).published_at == 0
    assert not manifest(G="no").collectable
    assert manifest(Z="of the future").revision == 7


@pytest.mark.parametrize("invalid_hash", INVALID_HASHES)
@pytest.mark.parametrize("field", ["C", "X", "H", "M"])
def test_an_invalid_hash_in_a_manifest_is_refused(field, invalid_hash):
    with pytest.raises(RepositoryUntrusted, match="not a content hash"):
        manifest(**{field: invalid_hash})


@pytest.mark.parametrize(
    "number", ["-1", "1e9", "9" * 19, "9" * 5000, "0x10", "\u0661", " 1", "1.0"]
)
@pytest.mark.parametrize("field", ["S", "T"])
def test_an_invalid_or_huge_number_in_a_manifest_is_refused(field, number):
    with pytest.raises(RepositoryUntrusted, match="not a number"):
        manifest(**{field: number})


@pytest.mark.parametrize("field", ["C", "N", "S", "X"])
@pytest.mark.parametrize("value", [None, ""])
def test_an_incomplete_manifest_is_refused(field, value):
    with pytest.raises(RepositoryUntrusted, match=f"not complete.*{field}"):
        manifest(**{field: value})


def test_a_manifest_with_a_duplicate_field_is_refused():
    with pytest.raises(RepositoryUntrusted, match="duplicate field"):
        manifest(S="7\nS8")


@pytest.mark.parametrize(
    "raw", [b"", b"--\n", b"\n--\n", b"a\n--\n" + b"0" * 40 + b"\n", b"\xff" * 99,
            b"a\n--\n" + b"0" * 40 + b"\nx", b"a\n--\n" + b"0" * 39 + b"\nx",
            b"a\n--\n../../x\nx"],
)  # fmt: skip
def test_an_invalid_signed_file_is_refused(raw):
    with pytest.raises(RepositoryUntrusted):
        parse_signed_file(raw, "manifest")


def test_a_signed_file_that_is_not_text_is_refused():
    text = b"\xff\n"
    raw = text + b"--\n" + hashlib.sha1(text).hexdigest().encode() + b"\nx"

    with pytest.raises(RepositoryUntrusted, match="not text"):
        parse_signed_file(raw, "manifest")


def test_a_whitelist_is_parsed():
    whitelist = parse_whitelist(signed_file(*WHITELIST, "not a fingerprint"))

    assert whitelist.name == "a.b"
    assert whitelist.expires_at - whitelist.issued_at == 30 * 86400
    assert whitelist.fingerprints == {(HashAlgorithm.SHAKE128, ":".join(["0A"] * 20))}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (0, "2027"),
        (0, "20271301000000"),
        (1, "20270131000000"),
        (1, "E"),
        (1, "E\u06620270131000000"),
        (2, "a.b"),
    ],
)
def test_an_invalid_whitelist_is_refused(line, value):
    lines = list(WHITELIST)
    lines[line] = value

    with pytest.raises(RepositoryUntrusted, match="whitelist"):
        parse_whitelist(signed_file(*lines))


@pytest.mark.parametrize("format_line", ["Vpkcs7", "Wcachain"])
def test_a_whitelist_in_an_unsupported_format_is_refused(format_line):
    with pytest.raises(RepositoryUntrusted, match="cannot check"):
        parse_whitelist(signed_file(*WHITELIST[:3], format_line, *WHITELIST[3:]))


def test_a_short_whitelist_is_refused():
    with pytest.raises(RepositoryUntrusted, match="not complete"):
        parse_whitelist(signed_file(*WHITELIST[:2]))
