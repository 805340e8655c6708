# SPDX-License-Identifier: Apache-2.0
"""What must hold of a repository's letters, beside their signatures, before anything of it is
believed.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.cvmfs.signed_files import Manifest, Whitelist
from gridstead.errors import RepositoryUntrusted

PUBLISHER = "Ask the publisher of the repository; nothing here can make it good."
ROLLBACK = "If the publisher did go back, run `gridstead cvmfs snapshot` with --allow-rollback."


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFiles:
    """What a repository shows of itself, believed.

    Attributes:
        whitelist: Who may sign.
        manifest: The revision.
        certificate: Of its signer, the object's bytes as they are stored.
    """

    whitelist: Whitelist
    manifest: Manifest
    certificate: bytes


def check_whitelist(whitelist: Whitelist, *, name: str, now: int) -> None:
    """Refuse a whitelist of another repository, or one whose time is over.

    Raises:
        RepositoryUntrusted: So it is.
    """
    if whitelist.name != name:
        raise RepositoryUntrusted(
            f"whitelist is not of {name}", detail=f"it names {whitelist.name[:255]!r}"
        )
    if now >= whitelist.expires_at:
        days = (now - whitelist.expires_at) // 86400
        raise RepositoryUntrusted(
            f"whitelist of {name} has expired",
            detail=f"{days} days ago",
            hint="Its publisher must sign it again (`cvmfs_server resign`); check this machine's clock too.",
        )


def check_manifest(manifest: Manifest, *, name: str) -> None:
    """Refuse a manifest of another repository.

    Raises:
        RepositoryUntrusted: So it is.
    """
    if manifest.name != name:
        raise RepositoryUntrusted(
            f"manifest is not of {name}", detail=f"it names {manifest.name[:255]!r}"
        )


def check_succession(
    before: tuple[Manifest, Whitelist],
    manifest: Manifest,
    whitelist: Whitelist,
    *,
    hint: str = ROLLBACK,
) -> None:
    """Refuse to go back: to an older revision, to another content of the same one, or to an older
    whitelist.

    An older whitelist may name signers that are no longer trusted.

    Args:
        before: What is served now.
        manifest: What is to be served.
        whitelist: What is to be served.
        hint: What to do if it is meant.

    Raises:
        RepositoryUntrusted: It would be going back.
    """
    ours, theirs = before[0], manifest
    if theirs.revision < ours.revision:
        told = f"revision {theirs.revision} of {ours.name} is older than {ours.revision}, which is here"
        raise RepositoryUntrusted(told, hint=hint)
    if theirs.revision == ours.revision and theirs.catalog != ours.catalog:
        told = f"revision {ours.revision} of {ours.name} is not the one that is here"
        detail = f"root catalog {theirs.catalog}, here {ours.catalog}"
        raise RepositoryUntrusted(told, detail=detail, hint=hint)
    if whitelist.issued_at < before[1].issued_at:
        raise RepositoryUntrusted(
            f"whitelist of {ours.name} is older than the one that is here", hint=hint
        )
