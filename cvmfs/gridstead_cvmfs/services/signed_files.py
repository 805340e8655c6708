# SPDX-License-Identifier: Apache-2.0
"""Checks the chain of trust from a master key to a revision: whitelist, certificate, manifest."""

from __future__ import annotations

from gridstead.errors import ConfigError
from gridstead_cvmfs.domain.objects import decompress
from gridstead_cvmfs.domain.signed_files import (
    MANIFEST,
    WHITELIST,
    Manifest,
    Whitelist,
    parse_manifest,
    parse_whitelist,
)
from gridstead_cvmfs.domain.trust import (
    PUBLISHER_HINT,
    SignedFiles,
    check_manifest,
    check_whitelist,
)
from gridstead_cvmfs.errors import RepositoryIncomplete, RepositoryUntrusted
from gridstead_cvmfs.ports import ReplicaFiles, Signatures, Upstream

MASTER_REPLICA = ".cvmfs_master_replica"
MAX_CERTIFICATE_BYTES = 64 * 1024


def read_signed_files(
    upstream: Upstream, signatures: Signatures, *, name: str, now: int
) -> SignedFiles:
    """Return the signed files of a repository after all checks. Nothing is stored.

    Args:
        upstream: The server of the files.
        signatures: The repository's master keys.
        name: The name of the repository.
        now: The current time. Unit: Unix seconds.

    Raises:
        RepositoryUntrusted: If a signed file was altered, has expired, is for another repository,
            or is not signed by an authorised key.
        RepositoryIncomplete: If a file does not exist.
    """
    whitelist = parse_whitelist(upstream.fetch_file(WHITELIST))
    if not signatures.is_signed_by_master(whitelist.signed_file):
        hint = (
            "Compare the keys in public_key_files with the keys of the publisher. If they are"
            " equal, do not trust the server."
        )
        raise RepositoryUntrusted(f"whitelist of {name} is not signed by its master key", hint=hint)
    check_whitelist(whitelist, name=name, now=now)
    manifest = parse_manifest(upstream.fetch_file(MANIFEST))
    check_manifest(manifest, name=name)
    compressed_certificate, pem = upstream.fetch_object(
        manifest.certificate,
        lambda pieces: decompress(manifest.certificate, pieces, limit=MAX_CERTIFICATE_BYTES),
    )
    signer = signatures.certificate(pem)
    # The fingerprints of the signer, one for each algorithm that the whitelist uses.
    algorithms = {algorithm for algorithm, _ in whitelist.fingerprints}
    signer_fingerprints = {(algorithm, signer.fingerprint(algorithm)) for algorithm in algorithms}
    if signer_fingerprints.isdisjoint(whitelist.fingerprints):
        raise RepositoryUntrusted(f"signer of {name} is not on its whitelist", hint=PUBLISHER_HINT)
    if not signer.has_signed(manifest.signed_file):
        raise RepositoryUntrusted(
            f"manifest of {name} is not signed by its certificate", hint=PUBLISHER_HINT
        )
    return SignedFiles(whitelist=whitelist, manifest=manifest, certificate=compressed_certificate)


def check_replication_allowed(upstream: Upstream, name: str) -> None:
    """Check that a server allows replicas.

    Raises:
        RepositoryIncomplete: If the server does not allow replicas.
    """
    try:
        upstream.fetch_file(MASTER_REPLICA)
    except RepositoryIncomplete as error:
        hint = f"Copy from a Stratum 0 on which the publisher created the file {MASTER_REPLICA}."
        raise RepositoryIncomplete(
            f"server of {name} does not allow replicas", detail=str(error), hint=hint
        ) from error


def stored_signed_files(files: ReplicaFiles, name: str) -> tuple[Manifest, Whitelist] | None:
    """Return the stored manifest and whitelist. Both were checked before they were stored.

    Returns:
        None if the replica has not been pulled yet.

    Raises:
        ConfigError: If a stored file is damaged.
    """
    manifest, whitelist = files.signed_file(MANIFEST), files.signed_file(WHITELIST)
    if manifest is None or whitelist is None:
        return None
    try:
        return parse_manifest(manifest), parse_whitelist(whitelist)
    except RepositoryUntrusted as error:
        hint = (
            f"Remove {MANIFEST} and {WHITELIST} from its folder; the next pull fetches them again."
        )
        raise ConfigError(
            f"stored signed files of {name} are damaged", detail=str(error), hint=hint
        ) from error
