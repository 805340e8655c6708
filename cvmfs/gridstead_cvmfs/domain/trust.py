# SPDX-License-Identifier: Apache-2.0
"""Checks of the names, times and order of a repository's signed files.

A signed file is trusted only if its signature is valid and these checks pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead_cvmfs.domain.signed_files import Manifest, Whitelist
from gridstead_cvmfs.errors import RepositoryUntrusted

PUBLISHER_HINT = "Ask the publisher of the repository to fix this."
ROLLBACK_HINT = (
    "If the publisher rolled back on purpose, run `gridstead cvmfs snapshot --allow-rollback`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFiles:
    """The signed files of a repository after all checks.

    Attributes:
        whitelist: The certificates that may sign.
        manifest: The manifest of the revision.
        certificate: The stored bytes of the signer's certificate object.
    """

    whitelist: Whitelist
    manifest: Manifest
    certificate: bytes


def check_whitelist(whitelist: Whitelist, *, name: str, now: int) -> None:
    """Reject a whitelist that has expired or is for another repository.

    Raises:
        RepositoryUntrusted: If the whitelist has expired or is for another repository.
    """
    if whitelist.name != name:
        raise RepositoryUntrusted(
            f"whitelist is not for {name}", detail=f"it is for {whitelist.name[:255]!r}"
        )
    if now >= whitelist.expires_at:
        days = (now - whitelist.expires_at) // 86400
        raise RepositoryUntrusted(
            f"whitelist of {name} has expired",
            detail=f"{days} days ago",
            hint=(
                "The publisher must sign it again (`cvmfs_server resign`). Check the clock of this"
                " machine too."
            ),
        )


def check_manifest(manifest: Manifest, *, name: str) -> None:
    """Reject a manifest of another repository.

    Raises:
        RepositoryUntrusted: If the manifest is for another repository.
    """
    if manifest.name != name:
        raise RepositoryUntrusted(
            f"manifest is not for {name}", detail=f"it is for {manifest.name[:255]!r}"
        )


def check_no_rollback(
    stored: tuple[Manifest, Whitelist],
    manifest: Manifest,
    whitelist: Whitelist,
    *,
    hint: str = ROLLBACK_HINT,
) -> None:
    """Reject a rollback.

    The new files are a rollback if the revision is older, if the revision number is equal but the
    content differs, or if the whitelist is older. An older whitelist may contain signers that are
    no longer trusted.

    Args:
        stored: The stored manifest and whitelist.
        manifest: The new manifest.
        whitelist: The new whitelist.
        hint: What to do if the rollback is intended.

    Raises:
        RepositoryUntrusted: If the new files are a rollback.
    """
    stored_manifest, stored_whitelist = stored
    name, revision = stored_manifest.name, stored_manifest.revision
    if manifest.revision < revision:
        message = f"revision {manifest.revision} of {name} is older than the stored {revision}"
        raise RepositoryUntrusted(message, hint=hint)
    if manifest.revision == revision and manifest.catalog != stored_manifest.catalog:
        raise RepositoryUntrusted(
            f"revision {revision} of {name} differs from the stored one",
            detail=f"root catalog {manifest.catalog}, stored {stored_manifest.catalog}",
            hint=hint,
        )
    if whitelist.issued_at < stored_whitelist.issued_at:
        raise RepositoryUntrusted(f"whitelist of {name} is older than the stored one", hint=hint)
