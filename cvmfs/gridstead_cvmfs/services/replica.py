# SPDX-License-Identifier: Apache-2.0
"""A replica of a CVMFS repository: pulls signed revisions and removes old objects.

A pull has these steps:

1. Check the signed files.
2. Fetch the objects. Store each catalog after all objects that it lists.
3. Save the state with the new revision.
4. Publish the whitelist, then the manifest.

After a crash at any point the previous revision is complete, and the next pull resumes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import structlog

from gridstead.errors import GridsteadError, InvalidInput
from gridstead.ports.clock import Clock
from gridstead_cvmfs.domain.objects import ObjectKind, ObjectName
from gridstead_cvmfs.domain.replica import (
    PullResult,
    ReplicaState,
    Revision,
    SweepResult,
    make_current,
    retain,
    to_revision,
)
from gridstead_cvmfs.domain.signed_files import Manifest
from gridstead_cvmfs.domain.trust import SignedFiles, check_no_rollback
from gridstead_cvmfs.ports import Databases, ObjectStore, ReplicaFiles, Signatures, Upstream
from gridstead_cvmfs.services.pull import Puller, PullOptions, ReportProgress, walk
from gridstead_cvmfs.services.signed_files import (
    check_replication_allowed,
    read_signed_files,
    stored_signed_files,
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPorts:
    """The ports of a replica."""

    upstream: Upstream
    signatures: Signatures
    objects: ObjectStore
    databases: Databases
    files: ReplicaFiles
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPolicy:
    """How a replica fetches and removes objects.

    Attributes:
        workers: The number of simultaneous fetches.
        keep_s: The time for which a superseded revision is kept.
        sweep_every_s: The time between two removals of old objects by ``tick``.
    """

    workers: int
    keep_s: int
    sweep_every_s: int


class Replica:
    """The replica of one repository.

    Args:
        name: The name of the repository.
        ports: The ports of the replica.
        policy: How it fetches and removes objects.
    """

    def __init__(self, name: str, ports: ReplicaPorts, policy: ReplicaPolicy) -> None:
        self._name = name
        self._ports = ports
        self._policy = policy
        self._stopped = threading.Event()

    @property
    def name(self) -> str:
        """Return the name of the repository."""
        return self._name

    def stop(self) -> None:
        """Stop a running pull soon. The pull fails, and the next pull resumes."""
        self._stopped.set()

    def state(self) -> ReplicaState:
        """Return the stored state of the replica."""
        return self._ports.files.load()

    def tick(self) -> None:
        """Pull, remove old objects if a sweep is due, and log the results.

        Raises:
            GridsteadError: If the pull or the removal fails.
        """
        result = self.snapshot()
        log.info(
            "snapshot_finished",
            repository=self._name,
            revision=result.revision,
            fetched=result.fetched,
            fetched_bytes=result.fetched_bytes,
        )
        if self._is_sweep_due():
            sweep = self.sweep()
            log.info(
                "objects_swept",
                repository=self._name,
                removed=sweep.removed,
                removed_bytes=sweep.removed_bytes,
            )

    def _is_sweep_due(self) -> bool:
        stored_files = stored_signed_files(self._ports.files, self._name)
        if stored_files is None:
            return False
        manifest, _ = stored_files
        last_sweep = self.state().last_sweep or 0
        elapsed_s = self._ports.clock.now() - last_sweep
        return manifest.collectable and elapsed_s >= self._policy.sweep_every_s

    def snapshot(
        self,
        *,
        check: bool = False,
        allow_rollback: bool = False,
        report: ReportProgress = lambda _: None,
    ) -> PullResult:
        """Pull the newest revision.

        Args:
            check: Whether to read every stored object, and fetch damaged objects again.
            allow_rollback: Whether to accept a revision older than the stored one.
            report: Receives the progress.

        Raises:
            RepositoryUntrusted: If a check of the server's files fails. The served revision is
                unchanged.
            ReplicaBusy: If another process uses this replica.
        """
        files = self._ports.files
        with self._locked(), self._pull_announced():
            state = files.load()
            signed_files = self._fetch_signed_files(allow_rollback=allow_rollback)
            if check:
                files.save(replace(state, doubted=True))
            options = PullOptions(walk=check or state.doubted, check=check)
            result = self._pull(signed_files, options, report)
            self._publish(state, signed_files)
            return replace(result, revision=signed_files.manifest.revision)

    def _publish(self, state: ReplicaState, signed_files: SignedFiles) -> None:
        """Save the state with the pulled revision, and publish the signed files."""
        files, now = self._ports.files, self._ports.clock.now()
        expires_at = signed_files.whitelist.expires_at
        state = replace(state, doubted=False, whitelist_expires_at=expires_at)
        state = make_current(state, to_revision(signed_files.manifest), now=now)
        state = retain(state, now=now, keep_s=self._policy.keep_s)
        files.save(state)  # before publish(), because the state must contain every served revision
        files.publish(signed_files)
        files.save(replace(state, last_snapshot=now, failure=""))

    def sweep(self, *, dry_run: bool = False) -> SweepResult:
        """Remove objects that no retained revision contains.

        The served revision, recently superseded revisions and tagged revisions are retained.

        Raises:
            InvalidInput: If there is no revision yet, or the publisher does not allow the removal
                of old revisions.
            ReplicaBusy: If another process uses this replica.
        """
        files, now = self._ports.files, self._ports.clock.now()
        with self._locked():
            manifest = self._collectable_manifest()
            before = files.load()
            state = retain(before, now=now, keep_s=self._policy.keep_s)
            kept_objects = self._reachable_objects((to_revision(manifest), *state.revisions))
            if dry_run:
                return self._ports.objects.sweep(kept_objects, dry_run=True)
            files.save(replace(before, doubted=True))
            result = self._ports.objects.sweep(kept_objects, dry_run=False)
            files.save(replace(state, doubted=before.doubted, last_sweep=now))
            return result

    def _collectable_manifest(self) -> Manifest:
        stored_files = stored_signed_files(self._ports.files, self._name)
        if stored_files is None:
            raise InvalidInput(
                f"no revision of {self._name} is stored",
                hint="Run `gridstead cvmfs snapshot` first.",
            )
        manifest, _ = stored_files
        if not manifest.collectable:
            detail = "its manifest does not contain G=yes, so old revisions must remain readable"
            raise InvalidInput(f"cannot remove old objects of {self._name}", detail=detail)
        return manifest

    def _fetch_signed_files(self, *, allow_rollback: bool) -> SignedFiles:
        ports = self._ports
        check_replication_allowed(ports.upstream, self._name)
        signed_files = read_signed_files(
            ports.upstream, ports.signatures, name=self._name, now=ports.clock.now()
        )
        stored = stored_signed_files(self._ports.files, self._name)
        if stored is not None and not allow_rollback:
            check_no_rollback(stored, signed_files.manifest, signed_files.whitelist)
        return signed_files

    def _pull(
        self, signed_files: SignedFiles, options: PullOptions, report: ReportProgress
    ) -> PullResult:
        ports, manifest = self._ports, signed_files.manifest
        puller = Puller(
            upstream=ports.upstream,
            objects=ports.objects,
            databases=ports.databases,
            workers=self._policy.workers,
            options=options,
            stopped=self._stopped,
            report=report,
        )
        if not ports.objects.has(manifest.certificate, check=options.check):
            ports.objects.put(manifest.certificate, (signed_files.certificate,))
        if manifest.metainfo is not None:
            puller.fetch(manifest.metainfo)
        if manifest.history is not None:
            puller.fetch(manifest.history)
            for tagged_catalog in ports.databases.tagged_catalogs(manifest.history):
                puller.pull(tagged_catalog)
        puller.pull(manifest.catalog)
        ports.objects.sync()
        return puller.progress

    def _reachable_objects(self, revisions: Iterable[Revision]) -> Iterator[ObjectName]:
        databases = self._ports.databases
        visited_objects: set[ObjectName] = set()
        for revision in revisions:
            for root in revision.roots:
                yield root
                if root.kind is ObjectKind.CATALOG:
                    yield from walk(databases, root, visited_objects)
                if root.kind is ObjectKind.HISTORY:
                    for tagged_catalog in databases.tagged_catalogs(root):
                        yield from walk(databases, tagged_catalog, visited_objects)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the replica, and save the message of a failure in its state."""
        files = self._ports.files
        with files.lock():
            try:
                yield
            except GridsteadError as error:
                if not isinstance(error, InvalidInput):
                    files.save(replace(files.load(), failure=f"{error.code}: {error}"))
                raise

    @contextmanager
    def _pull_announced(self) -> Iterator[None]:
        files = self._ports.files
        files.announce(self._ports.clock.now())
        try:
            yield
        finally:
            files.announce(None)
