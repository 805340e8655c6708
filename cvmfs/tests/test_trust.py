# SPDX-License-Identifier: Apache-2.0
"""Signed files and objects that a pull refuses. The served revision then does not change.

A signed file has text lines, a line ``--``, a line with the hash of the text, and the signature of
this hash.
"""

from __future__ import annotations

import zlib

import pytest
from cvmfs.tests.publisher import DAY_S, NOW, new_key, sign_bare
from cvmfs.tests.stratum0 import (
    answer_altered,
    answer_endlessly,
    answer_shortened,
    answer_truncated,
)
from cvmfs.tests.trees import TREE

from gridstead.errors import ConfigError
from gridstead_cvmfs.errors import RepositoryIncomplete, RepositoryUnavailable, RepositoryUntrusted

NEWER = {**TREE, "README": b"what this is now\n"}


@pytest.fixture
def old_replica(replica_setup):
    """A replica with the first of two published revisions.

    At the end, the fixture checks that the served files have not changed.
    """
    replica_setup.replica().snapshot()
    before = signed_files(replica_setup)
    replica_setup.publisher.publish(NEWER)
    yield replica_setup
    assert signed_files(replica_setup) == before


def signed_files(replica_setup):
    """Return the served manifest and whitelist."""
    return replica_setup.served_file(), replica_setup.served_file(".cvmfswhitelist")


def check_refusal(replica_setup, message, **replica_options):
    """Check that a pull is refused with this message, and return the error."""
    with pytest.raises(RepositoryUntrusted, match=message) as failure:
        replica_setup.replica(**replica_options).snapshot()
    return failure.value


def new_object(replica_setup, kind):
    """Return the path of an object that the replica does not have.

    For kind C the object is a catalog, otherwise it is not a catalog.
    """
    wants_catalog = kind == "C"
    new_paths = replica_setup.publisher.objects() - replica_setup.objects()
    for path in new_paths:
        if path.endswith("C") == wants_catalog:
            return path
    raise AssertionError(f"the replica has all objects of kind {kind!r}")


@pytest.mark.parametrize("kind", ["", "C"], ids=["file", "catalog"])
@pytest.mark.parametrize("fault", [answer_altered, answer_shortened])
def test_an_object_with_a_wrong_hash_is_refused_after_a_second_fetch(old_replica, kind, fault):
    path = new_object(old_replica, kind)
    old_replica.stratum0.faults[path] = fault

    failure = check_refusal(old_replica, "does not match its hash")

    assert "cache or proxy" in failure.hint
    assert path not in old_replica.objects()
    assert old_replica.stratum0.requests[path] == 2


@pytest.mark.parametrize("kind", ["", "C"], ids=["file", "catalog"])
def test_a_truncated_answer_is_requested_three_times_and_then_refused(old_replica, kind):
    path = new_object(old_replica, kind)
    old_replica.stratum0.faults[path] = answer_truncated

    with pytest.raises(RepositoryUnavailable, match="could not fetch"):
        old_replica.replica().snapshot()

    assert path not in old_replica.objects()
    assert old_replica.stratum0.requests[path] == 3


def test_an_endless_answer_is_refused(old_replica):
    old_replica.stratum0.faults[new_object(old_replica, "")] = answer_endlessly

    check_refusal(old_replica, "too large")


def test_a_missing_object_is_reported_as_incomplete(old_replica):
    (old_replica.publisher.root / new_object(old_replica, "")).unlink()

    with pytest.raises(RepositoryIncomplete, match="does not exist"):
        old_replica.replica().snapshot()


def test_a_whitelist_signed_with_another_key_is_refused(old_replica):
    old_replica.publisher.master = new_key()
    old_replica.publisher.write_whitelist()

    assert "public_key_files" in check_refusal(old_replica, "not signed by its master key").hint


def test_an_altered_whitelist_is_refused(old_replica):
    file = old_replica.publisher.root / ".cvmfswhitelist"
    # The line with E is the time at which the whitelist expires.
    file.write_bytes(file.read_bytes().replace(b"E2027", b"E2029"))

    check_refusal(old_replica, "whitelist was altered")


def test_an_altered_whitelist_with_a_matching_hash_is_refused(old_replica):
    file = old_replica.publisher.root / ".cvmfswhitelist"
    text, _, rest = file.read_bytes().partition(b"--\n")
    text = text.replace(b"E2027", b"E2029")
    digest = old_replica.publisher.hash(text).encode()
    file.write_bytes(text + b"--\n" + digest + b"\n" + rest.partition(b"\n")[2])

    check_refusal(old_replica, "not signed by its master key")


@pytest.mark.parametrize("signature", [b"", b"\x00" * 128, b"\xff" * 128, b"x", b"\x01" * 4000])
def test_an_invalid_signature_is_refused(old_replica, signature):
    file = old_replica.publisher.root / ".cvmfswhitelist"
    text, _, rest = file.read_bytes().partition(b"--\n")
    file.write_bytes(text + b"--\n" + rest.partition(b"\n")[0] + b"\n" + signature)

    check_refusal(old_replica, "whitelist")


def test_the_error_for_an_expired_whitelist_has_a_hint_for_the_publisher(old_replica):
    old_replica.clock.seconds += 31 * DAY_S  # the whitelist is valid for 30 days

    failure = check_refusal(old_replica, "has expired")

    assert failure.detail == "1 days ago"
    assert "resign" in failure.hint


def test_a_whitelist_of_another_repository_is_refused(old_replica):
    old_replica.publisher.write_whitelist(name="other.example.org")

    check_refusal(old_replica, "whitelist is not for software.example.org")


def test_a_manifest_of_another_repository_is_refused(old_replica):
    old_replica.publisher.write_manifest(N="other.example.org", C="0" * 40)

    check_refusal(old_replica, "manifest is not for software.example.org")


def test_a_repository_with_another_name_is_refused(old_replica):
    check_refusal(old_replica, "whitelist is not for mine.example.org", name="mine.example.org")


def test_a_whitelist_in_an_unsupported_format_is_refused(old_replica):
    old_replica.publisher.write_whitelist(extra="Vpkcs7\n")

    check_refusal(old_replica, "cannot check this whitelist")


def test_an_altered_manifest_is_refused(old_replica):
    file = old_replica.publisher.root / ".cvmfspublished"
    # The line with S is the number of the revision.
    file.write_bytes(file.read_bytes().replace(b"S2\n", b"S9\n"))

    check_refusal(old_replica, "manifest was altered")


def test_a_signer_that_is_not_on_the_whitelist_is_refused(old_replica, new_setup):
    other_publisher = new_setup().publisher
    other_publisher.signer = new_key()
    other_publisher.__post_init__()  # makes a certificate for the new signer
    other_publisher.revision = 1  # publish() increments it: the manifest has revision 2
    other_publisher.publish(NEWER)
    for path in other_publisher.objects():
        file = old_replica.publisher.root / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes((other_publisher.root / path).read_bytes())
    (old_replica.publisher.root / ".cvmfspublished").write_bytes(
        (other_publisher.root / ".cvmfspublished").read_bytes()
    )

    check_refusal(old_replica, "not on its whitelist")


def test_a_manifest_that_its_certificate_did_not_sign_is_refused(old_replica):
    signer = old_replica.publisher.signer
    old_replica.publisher.signer = new_key()
    old_replica.publisher.write_manifest(C="0" * 40)
    old_replica.publisher.signer = signer

    check_refusal(old_replica, "not signed by its certificate")


def test_a_manifest_signed_in_the_format_of_a_whitelist_is_refused(old_replica):
    file = old_replica.publisher.root / ".cvmfspublished"
    text, _, rest = file.read_bytes().partition(b"--\n")
    digest = rest.partition(b"\n")[0]
    file.write_bytes(
        text + b"--\n" + digest + b"\n" + sign_bare(old_replica.publisher.signer, digest)
    )

    check_refusal(old_replica, "not signed by its certificate")


@pytest.mark.parametrize(
    "pem",
    [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
)
def test_an_invalid_certificate_is_refused(old_replica, pem):
    old_replica.publisher.write_manifest(X=old_replica.publisher.store(pem, "X"))

    check_refusal(old_replica, "not a valid certificate")


@pytest.mark.parametrize(
    "stored", [b"not compressed", zlib.compress(b"x" * 10**6), zlib.compress(b"half" * 99)[:-6]]
)
def test_a_certificate_that_cannot_be_decompressed_is_refused(old_replica, stored):
    digest = old_replica.publisher.hash(stored)
    path = old_replica.publisher.path(digest, "X")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(stored)
    old_replica.publisher.write_manifest(X=digest)

    check_refusal(old_replica, "cannot be read|too large")


def test_a_rollback_is_refused_unless_it_is_allowed(replica_setup):
    first_files = replica_setup.publisher.signed_files()
    replica_setup.publisher.publish(NEWER)
    replica_setup.replica().snapshot()
    for name, content in first_files.items():
        (replica_setup.publisher.root / name).write_bytes(content)

    failure = check_refusal(replica_setup, "revision 1 of .* is older than the stored 2")
    assert "--allow-rollback" in failure.hint
    result = replica_setup.replica().snapshot(allow_rollback=True)

    assert result.revision == 1
    assert replica_setup.is_identical()


def test_new_content_under_the_stored_revision_number_is_refused(old_replica):
    old_replica.publisher.revision = 0  # publish() increments it, to the stored revision 1
    old_replica.publisher.publish({"other": b"tree\n"})

    check_refusal(old_replica, "differs from the stored one")


def test_an_older_whitelist_is_refused(old_replica):
    old_replica.publisher.write_whitelist(issued=NOW - DAY_S)

    check_refusal(old_replica, "older than the stored one")


def test_a_newer_whitelist_is_accepted_without_a_newer_revision(replica_setup):
    replica_setup.replica().snapshot()
    replica_setup.publisher.write_whitelist(issued=NOW + DAY_S)

    replica_setup.replica().snapshot()

    assert replica_setup.is_identical()
    assert replica_setup.replica().state().whitelist_expires_at == NOW + 31 * DAY_S


def test_a_repository_that_allows_no_replicas_is_not_copied(replica_setup):
    (replica_setup.publisher.root / ".cvmfs_master_replica").unlink()

    with pytest.raises(RepositoryIncomplete, match="does not allow replicas"):
        replica_setup.replica().snapshot()


def test_a_redirect_is_not_followed(replica_setup):
    def redirect(handler, _content):
        handler.send_response(302)
        handler.send_header("Location", "http://127.0.0.1:1/")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    replica_setup.stratum0.fault_for_all = redirect
    with pytest.raises(RepositoryUnavailable) as failure:
        replica_setup.replica().snapshot()

    assert failure.value.detail == "status 302"


@pytest.mark.parametrize("content", [b"", b"no key"])
def test_the_error_for_an_invalid_master_key_names_its_file(replica_setup, folder, content):
    (folder / "key").write_bytes(content)

    with pytest.raises(ConfigError, match=r"cannot read master key .*key"):
        replica_setup.replica(key=folder / "key")


def test_the_error_for_a_damaged_stored_file_has_a_hint(replica_setup):
    replica_setup.replica().snapshot()
    (replica_setup.folder / ".cvmfspublished").write_bytes(b"damaged")

    with pytest.raises(ConfigError, match=r"signed files of .* are damaged") as failure:
        replica_setup.replica().snapshot()

    assert "Remove .cvmfspublished" in failure.value.hint


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"version": 2}', '{"version": 1, "revisions": [{"roots": [".."]}]}'],
)
def test_the_error_for_an_unreadable_state_has_a_hint(replica_setup, content):
    replica_setup.replica().snapshot()
    state = replica_setup.storage / ".state" / f"{replica_setup.publisher.name}.json"
    state.write_text(content)

    for action in (replica_setup.replica().state, replica_setup.replica().snapshot):
        with pytest.raises(ConfigError, match=r"cannot read .*json") as failure:
            action()
        assert "Remove the file" in failure.value.hint


def test_a_replica_without_its_state_file_fetches_nothing_again(replica_setup):
    replica_setup.replica().snapshot()
    (replica_setup.storage / ".state" / f"{replica_setup.publisher.name}.json").unlink()

    assert replica_setup.replica().snapshot().fetched == 0
