# SPDX-License-Identifier: Apache-2.0
"""What a pull refuses. A refused pull leaves the served revision unchanged."""

from __future__ import annotations

import zlib

import pytest
from cvmfs.tests.publisher import DAY_S, NOW, TREE, new_key, sign_bare
from cvmfs.tests.stratum0 import altered, endless, shortened, truncated

from gridstead.errors import ConfigError
from gridstead_cvmfs.errors import RepositoryIncomplete, RepositoryUnavailable, RepositoryUntrusted

NEWER = {**TREE, "README": b"what this is now\n"}


@pytest.fixture
def served(replica_setup):
    """A replica of the first of two revisions. Checks that the replica does not change."""
    replica_setup.replica().snapshot()
    before = replica_setup.served(), replica_setup.served(".cvmfswhitelist")
    replica_setup.publisher.publish(NEWER)
    yield replica_setup
    assert (replica_setup.served(), replica_setup.served(".cvmfswhitelist")) == before


def refused(replica_setup, message, **replica):
    with pytest.raises(RepositoryUntrusted, match=message) as failure:
        replica_setup.replica(**replica).snapshot()
    return failure.value


def new_object(replica_setup, kind):
    """Return the path of a published object of a kind that the replica does not have yet."""
    new = replica_setup.publisher.objects() - replica_setup.objects()
    return next(path for path in new if (path[-1] == "C") == (kind == "C"))


@pytest.mark.parametrize("kind", ["", "C"], ids=["file", "catalog"])
@pytest.mark.parametrize("fault", [altered, shortened])
def test_an_object_with_a_wrong_hash_is_refused_after_a_second_fetch(served, kind, fault):
    path = new_object(served, kind)
    served.stratum0.faults[path] = fault

    failure = refused(served, "does not match its hash")

    assert "cache or proxy" in failure.hint
    assert path not in served.objects()
    assert served.stratum0.requests[path] == 2


@pytest.mark.parametrize("kind", ["", "C"], ids=["file", "catalog"])
def test_a_truncated_answer_is_fetched_again_and_then_refused(served, kind):
    path = new_object(served, kind)
    served.stratum0.faults[path] = truncated

    with pytest.raises(RepositoryUnavailable, match="could not fetch"):
        served.replica().snapshot()

    assert path not in served.objects()
    assert served.stratum0.requests[path] == 3


def test_an_endless_answer_is_refused(served):
    served.stratum0.faults[new_object(served, "")] = endless

    refused(served, "too large")


def test_a_missing_object_is_reported_as_incomplete(served):
    (served.publisher.root / new_object(served, "")).unlink()

    with pytest.raises(RepositoryIncomplete, match="does not exist"):
        served.replica().snapshot()


def test_a_whitelist_signed_with_another_key_is_refused(served, folder):
    served.publisher.master = new_key()

    served.publisher.write_whitelist()

    assert "public_key_files" in refused(served, "not signed by its master key").hint


def test_an_altered_whitelist_is_refused(served):
    file = served.publisher.root / ".cvmfswhitelist"
    file.write_bytes(file.read_bytes().replace(b"E2027", b"E2029"))

    refused(served, "whitelist was altered")


def test_an_altered_whitelist_with_a_matching_hash_is_refused(served):
    file = served.publisher.root / ".cvmfswhitelist"
    text, _, rest = file.read_bytes().partition(b"--\n")
    text = text.replace(b"E2027", b"E2029")
    digest = served.publisher.hash(text).encode()
    file.write_bytes(text + b"--\n" + digest + b"\n" + rest.partition(b"\n")[2])

    refused(served, "not signed by its master key")


@pytest.mark.parametrize("signature", [b"", b"\x00" * 128, b"\xff" * 128, b"x", b"\x01" * 4000])
def test_an_invalid_signature_is_refused(served, signature):
    file = served.publisher.root / ".cvmfswhitelist"
    text, _, rest = file.read_bytes().partition(b"--\n")
    file.write_bytes(text + b"--\n" + rest.partition(b"\n")[0] + b"\n" + signature)

    refused(served, "whitelist")


def test_the_error_for_an_expired_whitelist_has_a_hint_for_the_publisher(served):
    served.clock.seconds += 31 * DAY_S

    failure = refused(served, "has expired")

    assert failure.detail == "1 days ago"
    assert "resign" in failure.hint


def test_a_whitelist_of_another_repository_is_refused(served):
    served.publisher.write_whitelist(name="other.example.org")

    refused(served, "whitelist is not for software.example.org")


def test_a_manifest_of_another_repository_is_refused(served):
    served.publisher.write_manifest(N="other.example.org", C="0" * 40)

    refused(served, "manifest is not for software.example.org")


def test_a_repository_with_another_name_is_refused(served):
    refused(served, "whitelist is not for mine.example.org", name="mine.example.org")


def test_a_whitelist_in_an_unsupported_form_is_refused(served):
    served.publisher.write_whitelist(extra="Vpkcs7\n")

    refused(served, "cannot check this whitelist")


def test_an_altered_manifest_is_refused(served):
    file = served.publisher.root / ".cvmfspublished"
    file.write_bytes(file.read_bytes().replace(b"S2\n", b"S9\n"))

    refused(served, "manifest was altered")


def test_a_signer_that_is_not_on_the_whitelist_is_refused(served, new_setup):
    other = new_setup().publisher
    other.signer = new_key()
    other.__post_init__()
    other.revision = 1
    catalog = other.publish(NEWER)
    for path in other.objects():
        file = served.publisher.root / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes((other.root / path).read_bytes())
    (served.publisher.root / ".cvmfspublished").write_bytes(
        (other.root / ".cvmfspublished").read_bytes()
    )
    assert catalog

    refused(served, "not on its whitelist")


def test_a_manifest_that_its_certificate_did_not_sign_is_refused(served):
    signer = served.publisher.signer
    served.publisher.signer = new_key()
    served.publisher.write_manifest(C="0" * 40)
    served.publisher.signer = signer

    refused(served, "not signed by its certificate")


def test_a_manifest_signed_in_the_form_of_the_master_key_is_refused(served):
    file = served.publisher.root / ".cvmfspublished"
    text, _, rest = file.read_bytes().partition(b"--\n")
    digest = rest.partition(b"\n")[0]
    file.write_bytes(text + b"--\n" + digest + b"\n" + sign_bare(served.publisher.signer, digest))

    refused(served, "not signed by its certificate")


@pytest.mark.parametrize(
    "pem",
    [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
)
def test_an_invalid_certificate_is_refused(served, pem):
    served.publisher.write_manifest(X=served.publisher.store(pem, "X"))

    refused(served, "not a valid certificate")


@pytest.mark.parametrize(
    "packed", [b"not packed", zlib.compress(b"x" * 10**6), zlib.compress(b"half" * 99)[:-6]]
)
def test_a_certificate_that_cannot_be_decompressed_is_refused(served, packed):
    digest = served.publisher.hash(packed)
    path = served.publisher.path(digest, "X")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed)
    served.publisher.write_manifest(X=digest)

    refused(served, "cannot be read|too large")


def test_a_rollback_is_refused_unless_it_is_allowed(replica_setup):
    first = {
        name: (replica_setup.publisher.root / name).read_bytes()
        for name in (".cvmfspublished", ".cvmfswhitelist")
    }
    replica_setup.publisher.publish(NEWER)
    replica_setup.replica().snapshot()
    for name, content in first.items():
        (replica_setup.publisher.root / name).write_bytes(content)

    failure = refused(replica_setup, "revision 1 of .* is older than the stored 2")
    assert "--allow-rollback" in failure.hint
    result = replica_setup.replica().snapshot(allow_rollback=True)

    assert result.revision == 1
    assert replica_setup.is_identical()


def test_other_content_under_the_same_revision_number_is_refused(served):
    served.publisher.revision = 0
    served.publisher.publish({"other": b"tree\n"})

    refused(served, "differs from the stored one")


def test_an_older_whitelist_is_refused(served):
    served.publisher.write_whitelist(issued=NOW - DAY_S)

    refused(served, "older than the stored one")


def test_a_newer_whitelist_is_accepted_without_a_newer_revision(replica_setup):
    replica_setup.replica().snapshot()
    replica_setup.publisher.write_whitelist(issued=NOW + DAY_S)

    replica_setup.replica().snapshot()

    assert replica_setup.is_identical()
    assert replica_setup.replica().state().whitelist_expires_at == NOW + 31 * DAY_S


def test_a_server_that_allows_no_replicas_is_not_copied(replica_setup):
    (replica_setup.publisher.root / ".cvmfs_master_replica").unlink()

    with pytest.raises(RepositoryIncomplete, match="does not allow replicas"):
        replica_setup.replica().snapshot()


def test_a_redirect_is_not_followed(replica_setup):
    def redirect(handler, _content):
        handler.send_response(302)
        handler.send_header("Location", "http://127.0.0.1:1/")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    replica_setup.stratum0.every = redirect
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
