# SPDX-License-Identifier: Apache-2.0
"""Tests of object names, signed files and the state of CVMFS replicas."""

from __future__ import annotations

import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstead_cvmfs.domain.objects import (
    Algorithm,
    ObjectKind,
    ObjectName,
    from_digest,
    new_hasher,
    parse_hash,
    parse_path,
    unpack,
)
from gridstead_cvmfs.domain.replica import (
    ReplicaState,
    Revision,
    make_current,
    retain,
    to_revision,
)
from gridstead_cvmfs.domain.signed_files import parse_manifest, parse_signed_file, parse_whitelist
from gridstead_cvmfs.errors import RepositoryUntrusted

ZERO = "0" * 40
NAMES = st.builds(
    ObjectName,
    st.text("0123456789abcdef", min_size=40, max_size=40),
    st.sampled_from(Algorithm),
    st.sampled_from(ObjectKind),
)
INVALID_HASHES = [
    "../../../etc/passwd", "/etc/passwd", "..", "00/../../../x", "0" * 39, "0" * 41, "G" * 40,
    "0" * 39 + "\x00", "A" * 40, ZERO + "-md5", ZERO + "C", ZERO + "-rmd160-rmd160", " " + ZERO,
    "\u0660" * 40,
]  # fmt: skip
# Fields of a manifest: C root catalog, B its size, D lifetime in seconds, S revision, N name of the
# repository, X certificate, T time of publication, G whether old revisions may be removed.
MANIFEST = {
    "C": ZERO,
    "B": "1",
    "D": "240",
    "S": "7",
    "N": "a.b",
    "X": "1" * 40,
    "T": "9",
    "G": "yes",
}
# Lines of a whitelist: time of issue, time of expiry, name of the repository, fingerprint of a
# certificate.
WHITELIST = [
    "20270101000000",
    "E20270131000000",
    "Na.b",
    ":".join(["0A"] * 20) + "-shake128 # somebody",
]


def signed_file(*lines):
    """Return the bytes of a signed file with these lines, a correct hash and a fake signature."""
    text = "".join(f"{line}\n" for line in lines).encode()
    return text + b"--\n" + hashlib.sha1(text).hexdigest().encode() + b"\nsignature\n--\n\x00"


def manifest(**fields):
    """Return a parsed manifest without the fields whose value is None."""
    values = MANIFEST | fields
    lines = (f"{key}{value}" for key, value in values.items() if value is not None)
    return parse_manifest(signed_file(*lines))


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
    assert algorithms == [Algorithm.SHA1, Algorithm.RMD160, Algorithm.SHAKE128]
    with pytest.raises(RepositoryUntrusted):
        from_digest(b"\x01" * 20, 3, ObjectKind.CHUNK)


@pytest.mark.parametrize("algorithm", Algorithm)
def test_digests_of_all_algorithms_have_the_same_length(algorithm):
    hasher = new_hasher(algorithm)
    hasher.update(b"a")
    hasher.update(b"b")

    assert len(hasher.hexdigest()) == 40


def test_a_small_object_is_decompressed_and_a_larger_one_is_refused():
    packed = zlib.compress(b"content")
    name = parse_hash(hashlib.sha1(packed).hexdigest(), ObjectKind.CERTIFICATE)

    assert unpack(name, [packed[:3], packed[3:]], limit=100) == (packed, b"content")
    with pytest.raises(RepositoryUntrusted, match="too large"):
        unpack(name, [packed], limit=3)


def test_an_object_that_does_not_match_its_hash_is_refused():
    with pytest.raises(RepositoryUntrusted, match="does not match its hash") as refused:
        unpack(
            ObjectName(ZERO, Algorithm.SHA1, ObjectKind.CERTIFICATE),
            [b"four", b"teen bytes"],
            limit=100,
        )
    assert refused.value.detail == "14 bytes"


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
        unpack(name, [stored], limit=100)


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
    assert whitelist.fingerprints == {(Algorithm.SHAKE128, ":".join(["0A"] * 20))}


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


def revision(number):
    return Revision(
        number=number,
        published_at=0,
        roots=(ObjectName(f"{number:040x}", Algorithm.SHA1, ObjectKind.CATALOG),),
    )


def superseded_times(state):
    """Return (number, time at which the revision was superseded) for each revision."""
    return [(revision.number, revision.superseded_at) for revision in state.revisions]


def test_a_new_revision_supersedes_the_previous_one():
    state = make_current(ReplicaState(), revision(1), now=10)
    state = make_current(state, revision(2), now=20)

    assert superseded_times(state) == [(1, 20), (2, None)]
    assert state.current.number == 2


def test_the_current_revision_may_be_pulled_again_without_a_change():
    state = make_current(ReplicaState(), revision(1), now=10)

    assert make_current(state, revision(1), now=20) is state


def test_an_older_revision_may_become_current_again():
    state = ReplicaState()
    for now, number in enumerate((1, 2, 1)):  # at the times 0, 1 and 2
        state = make_current(state, revision(number), now=now)

    assert superseded_times(state) == [(2, 2), (1, None)]


@pytest.mark.parametrize(
    ("now", "keep_s", "numbers"), [(10**9, 100, [3]), (350, 100, [2, 3]), (350, 1000, [1, 2, 3])]
)
def test_superseded_revisions_are_retained_for_a_time(now, keep_s, numbers):
    state = ReplicaState()
    for number in (1, 2, 3):
        state = make_current(state, revision(number), now=number * 100)

    retained = retain(state, now=now, keep_s=keep_s)

    assert [revision.number for revision in retained.revisions] == numbers


def test_a_new_state_has_no_current_revision():
    assert ReplicaState().current is None


def test_a_revision_has_the_roots_of_its_manifest():
    assert [root.kind for root in to_revision(manifest(H="2" * 40)).roots] == [
        ObjectKind.CATALOG,
        ObjectKind.CERTIFICATE,
        ObjectKind.HISTORY,
    ]
