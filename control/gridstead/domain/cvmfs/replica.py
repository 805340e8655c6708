# SPDX-License-Identifier: Apache-2.0
"""What a replica remembers, which revisions it keeps, and what its runs did."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridstead.domain.cvmfs.objects import ObjectName
from gridstead.domain.cvmfs.signed_files import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A revision that is here in whole.

    Attributes:
        number: Of the manifest.
        published_at: Unix seconds.
        roots: Objects that name all of its content: catalog, certificate, perhaps history and
            metainfo.
        superseded_at: When another took its place, Unix seconds; None while it is served.
    """

    number: int
    published_at: int
    roots: tuple[ObjectName, ...]
    superseded_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """What a replica remembers from run to run.

    Attributes:
        revisions: Newest last; at most one is not superseded.
        last_snapshot: When a pull last ended well, Unix seconds; None for never.
        last_sweep: When old objects were last removed, Unix seconds; None for never.
        doubted: Whether objects were being removed, by a sweep or a check, and that is not known to
            have ended: a catalog that is here then does not prove that what it names is.
        whitelist_expires_at: Unix seconds; None before the first pull.
        failure: What the last run failed with, in words; empty after one that did not.
    """

    revisions: tuple[Revision, ...] = ()
    last_snapshot: int | None = None
    last_sweep: int | None = None
    doubted: bool = False
    whitelist_expires_at: int | None = None
    failure: str = ""

    @property
    def current(self) -> Revision | None:
        """Return the revision that is served."""
        return self.revisions[-1] if self.revisions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What a pull did, or has done so far.

    Attributes:
        revision: That is served afterwards.
        objects: That were looked at.
        fetched: Of them, those that were not here.
        fetched_bytes: Their size, compressed.
        catalogs: That were read.
    """

    revision: int = 0
    objects: int = 0
    fetched: int = 0
    fetched_bytes: int = 0
    catalogs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep removed, or would.

    Attributes:
        kept: Objects that stay.
        removed: Objects that went.
        removed_bytes: Their size.
    """

    kept: int
    removed: int
    removed_bytes: int


def to_revision(manifest: Manifest) -> Revision:
    """Return a manifest's revision, as it is remembered."""
    roots = (manifest.catalog, manifest.certificate, manifest.history, manifest.metainfo)
    return Revision(
        number=manifest.revision,
        published_at=manifest.published_at,
        roots=tuple(root for root in roots if root is not None),
    )


def take(state: ReplicaState, revision: Revision, *, now: int) -> ReplicaState:
    """Return the state in which a revision is the one that is served; the one before is superseded
    from now on.
    """
    current = state.current
    if (
        current is not None
        and current.roots == revision.roots
        and current.number == revision.number
    ):
        return state
    older = tuple(
        replace(one, superseded_at=now) if one.superseded_at is None else one
        for one in state.revisions
        if one.roots != revision.roots
    )
    return replace(state, revisions=(*older, revision))


def retain(state: ReplicaState, *, now: int, keep_s: int) -> ReplicaState:
    """Return the state without revisions that were superseded longer ago than that.

    Clients go on with a revision until they look for the next, so one that was just superseded is
    still read.
    """
    kept = (
        one
        for one in state.revisions
        if one.superseded_at is None or one.superseded_at > now - keep_s
    )
    return replace(state, revisions=tuple(kept))
