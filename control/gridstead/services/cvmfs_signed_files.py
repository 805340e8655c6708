# SPDX-License-Identifier: Apache-2.0
"""From a master key to a revision that may be believed: whitelist, certificate, manifest."""

from __future__ import annotations

from gridstead.domain.cvmfs.objects import unpack
from gridstead.domain.cvmfs.signed_files import (
    MANIFEST,
    WHITELIST,
    Manifest,
    Whitelist,
    parse_manifest,
    parse_whitelist,
)
from gridstead.domain.cvmfs.trust import PUBLISHER, SignedFiles, check_manifest, check_whitelist
from gridstead.errors import ConfigError, RepositoryIncomplete, RepositoryUntrusted
from gridstead.ports import ReplicaFiles, Signatures, Upstream

MASTER_REPLICA = ".cvmfs_master_replica"
MAX_CERTIFICATE_BYTES = 64 * 1024


def read_signed_files(
    upstream: Upstream, signatures: Signatures, *, name: str, now: int
) -> SignedFiles:
    """Return the letters of a repository, believed. Nothing is stored.

    Args:
        upstream: Who shows them.
        signatures: The repository's master keys.
        name: Of the repository.
        now: Unix seconds.

    Raises:
        RepositoryUntrusted: A letter is altered, of another repository, expired, or not signed by
            who may.
        RepositoryIncomplete: A file is not there.
    """
    whitelist = parse_whitelist(upstream.file(WHITELIST))
    if not signatures.is_of_master(whitelist.signed_file):
        hint = "Compare public_key_files with the keys that the publisher gives; if they are right, trust nothing."
        raise RepositoryUntrusted(f"whitelist of {name} is not signed by its master key", hint=hint)
    check_whitelist(whitelist, name=name, now=now)
    manifest = parse_manifest(upstream.file(MANIFEST))
    check_manifest(manifest, name=name)
    packed, pem = upstream.fetch(
        manifest.certificate,
        lambda pieces: unpack(manifest.certificate, pieces, limit=MAX_CERTIFICATE_BYTES),
    )
    signer = signatures.certificate(pem)
    if not any(
        (one, signer.fingerprint(one)) in whitelist.fingerprints
        for one, _ in whitelist.fingerprints
    ):
        raise RepositoryUntrusted(f"signer of {name} is not on its whitelist", hint=PUBLISHER)
    if not signer.has_signed(manifest.signed_file):
        raise RepositoryUntrusted(
            f"manifest of {name} is not signed by its certificate", hint=PUBLISHER
        )
    return SignedFiles(whitelist=whitelist, manifest=manifest, certificate=packed)


def check_consent(upstream: Upstream, name: str) -> None:
    """Refuse to copy a server that does not let itself be copied.

    Raises:
        RepositoryIncomplete: So it is.
    """
    try:
        upstream.file(MASTER_REPLICA)
    except RepositoryIncomplete as error:
        hint = "Copy from a Stratum 0 that has this file; its publisher makes it to allow replicas."
        raise RepositoryIncomplete(
            f"server of {name} may not be copied", detail=str(error), hint=hint
        ) from error


def stored_signed_files(files: ReplicaFiles, name: str) -> tuple[Manifest, Whitelist] | None:
    """Return the letters that are here, which were believed when they came; None before the first.

    Raises:
        ConfigError: They are damaged.
    """
    manifest, whitelist = files.signed_file(MANIFEST), files.signed_file(WHITELIST)
    if manifest is None or whitelist is None:
        return None
    try:
        return parse_manifest(manifest), parse_whitelist(whitelist)
    except RepositoryUntrusted as error:
        hint = (
            f"Remove {MANIFEST} and {WHITELIST} from its folder; they come again from the server."
        )
        raise ConfigError(
            f"letters of {name} are damaged here", detail=str(error), hint=hint
        ) from error
