# SPDX-License-Identifier: Apache-2.0
"""The checks of a manifest and a whitelist, except the checks of the signatures."""

from dataclasses import replace

import pytest

from gridstead_cvmfs.domain.objects import HashAlgorithm, ObjectKind, ObjectName
from gridstead_cvmfs.domain.signed_files import Manifest, SignedFile, Whitelist
from gridstead_cvmfs.domain.trust import check_manifest, check_no_rollback, check_whitelist
from gridstead_cvmfs.errors import RepositoryUntrusted

SIGNED_FILE = SignedFile(raw=b"", lines=(), signed_hash=b"", signature=b"")
NOW = 1_800_000_000
DAY_S = 86400
WHITELIST = Whitelist(
    signed_file=SIGNED_FILE,
    name="a.b",
    issued_at=NOW - DAY_S,
    expires_at=NOW + DAY_S,
    fingerprints=frozenset(),
)


def catalog(digit):
    return ObjectName(digit * 40, HashAlgorithm.SHA1, ObjectKind.CATALOG)


MANIFEST = Manifest(
    signed_file=SIGNED_FILE,
    name="a.b",
    revision=7,
    published_at=0,
    catalog=catalog("1"),
    certificate=ObjectName("2" * 40, HashAlgorithm.SHA1, ObjectKind.CERTIFICATE),
    history=None,
    metainfo=None,
    collectable=True,
)


def test_valid_signed_files_are_accepted():
    check_whitelist(WHITELIST, name="a.b", now=NOW)
    check_manifest(MANIFEST, name="a.b")


def test_a_whitelist_of_another_repository_is_refused():
    with pytest.raises(RepositoryUntrusted, match=r"not for c\.d"):
        check_whitelist(WHITELIST, name="c.d", now=NOW)


def test_a_whitelist_is_refused_from_the_second_at_which_it_expires():
    check_whitelist(WHITELIST, name="a.b", now=WHITELIST.expires_at - 1)
    with pytest.raises(RepositoryUntrusted, match="expired") as caught:
        check_whitelist(WHITELIST, name="a.b", now=WHITELIST.expires_at + 3 * DAY_S)
    assert caught.value.detail == "3 days ago"
    with pytest.raises(RepositoryUntrusted, match="expired"):
        check_whitelist(WHITELIST, name="a.b", now=WHITELIST.expires_at)


def test_a_manifest_of_another_repository_is_refused():
    with pytest.raises(RepositoryUntrusted, match=r"not for c\.d"):
        check_manifest(MANIFEST, name="c.d")


@pytest.mark.parametrize(
    ("manifest", "whitelist"),
    [
        (MANIFEST, WHITELIST),
        (replace(MANIFEST, revision=8, catalog=catalog("3")), WHITELIST),
        (MANIFEST, replace(WHITELIST, issued_at=WHITELIST.issued_at + 1)),
    ],
)
def test_signed_files_that_are_newer_or_equally_old_are_accepted(manifest, whitelist):
    check_no_rollback((MANIFEST, WHITELIST), manifest, whitelist)


@pytest.mark.parametrize(
    ("manifest", "whitelist", "message"),
    [
        (replace(MANIFEST, revision=6), WHITELIST, "revision 6 of a.b is older than the stored 7"),
        (replace(MANIFEST, catalog=catalog("3")), WHITELIST, "differs from the stored one"),
        (MANIFEST, replace(WHITELIST, issued_at=NOW - 2 * DAY_S), "whitelist of a.b is older"),
    ],
)
def test_a_rollback_is_refused_with_the_hint_of_the_caller(manifest, whitelist, message):
    with pytest.raises(RepositoryUntrusted, match=message) as caught:
        check_no_rollback((MANIFEST, WHITELIST), manifest, whitelist, hint="what to do")
    assert caught.value.hint == "what to do"
