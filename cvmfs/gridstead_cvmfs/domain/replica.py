# SPDX-License-Identifier: Apache-2.0
"""The stored state of a replica, the revisions that it retains, and the results of its runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridstead_cvmfs.domain.objects import ObjectName
from gridstead_cvmfs.domain.signed_files import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A revision whose objects are all in the replica.

    Attributes:
        number: The revision number in the manifest.
        published_at: The time of publication. Unit: Unix seconds.
        roots: The objects from which all other objects are reachable: catalog, certificate, and,
            if they exist, history and metainfo.
        superseded_at: The time at which another revision replaced this revision. Unit: Unix
            seconds. None while this revision is served.
    """

    number: int
    published_at: int
    roots: tuple[ObjectName, ...]
    superseded_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """The state that a replica stores between runs.

    Attributes:
        revisions: The revisions, newest last. At most one revision is not superseded.
        last_snapshot: Time of the last successful pull. Unit: Unix seconds. None before the first
            successful pull.
        last_sweep: Time of the last sweep. Unit: Unix seconds. None before the first sweep.
        doubted: Whether a sweep or a check was interrupted while it removed objects. If so, a
            stored catalog does not prove that the objects below it are stored.
        whitelist_expires_at: Expiry of the whitelist. Unit: Unix seconds. None before the first
            successful pull.
        failure: The code and the message of the last error of a pull or a sweep. A successful pull
            clears it.
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
class PullResult:
    """The result of a pull, or its progress so far.

    Attributes:
        revision: The revision that is served afterwards.
        objects: The number of objects that were checked.
        fetched: The number of objects that were not stored before.
        fetched_bytes: The compressed size of the fetched objects.
        catalogs: The number of catalogs that were read.
    """

    revision: int = 0
    objects: int = 0
    fetched: int = 0
    fetched_bytes: int = 0
    catalogs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The objects that a sweep removed, or would remove in a dry run.

    Attributes:
        kept: The number of objects that remain.
        removed: The number of objects that were removed.
        removed_bytes: The size of the removed objects.
    """

    kept: int
    removed: int
    removed_bytes: int


def to_revision(manifest: Manifest) -> Revision:
    """Return the revision that a manifest describes."""
    roots = (manifest.catalog, manifest.certificate, manifest.history, manifest.metainfo)
    return Revision(
        number=manifest.revision,
        published_at=manifest.published_at,
        roots=tuple(root for root in roots if root is not None),
    )


def make_current(state: ReplicaState, revision: Revision, *, now: int) -> ReplicaState:
    """Return the state in which a revision is the current one.

    The previous revision is superseded at ``now``.
    """
    current = state.current
    if current is not None:
        has_same_roots = current.roots == revision.roots
        if has_same_roots and current.number == revision.number:
            return state
    revisions = []
    for older_revision in state.revisions:
        if older_revision.roots == revision.roots:  # this content is current again
            continue
        if older_revision.superseded_at is None:
            revisions.append(replace(older_revision, superseded_at=now))
        else:
            revisions.append(older_revision)
    return replace(state, revisions=(*revisions, revision))


def retain(state: ReplicaState, *, now: int, keep_s: int) -> ReplicaState:
    """Return the state without revisions that were superseded more than ``keep_s`` seconds ago.

    Clients may still read a revision that was superseded recently, until they check for a new one.
    """

    def is_retained(revision: Revision) -> bool:
        return revision.superseded_at is None or revision.superseded_at > now - keep_s

    return replace(state, revisions=tuple(filter(is_retained, state.revisions)))
