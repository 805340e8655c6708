# SPDX-License-Identifier: Apache-2.0
"""A replica of a CVMFS repository: pulls what its publisher signed, keeps revisions for a while,
removes old objects.

Order of a pull: letters are believed; objects; catalogs, each after all below it; the state, which
names the revision; whitelist; manifest. A crash anywhere leaves the revision of before in whole,
and the next pull does the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import structlog

from gridstead.domain.cvmfs.objects import ObjectKind, ObjectName
from gridstead.domain.cvmfs.replica import (
    Pulled,
    ReplicaState,
    Revision,
    Swept,
    retain,
    take,
    to_revision,
)
from gridstead.domain.cvmfs.trust import SignedFiles, check_succession
from gridstead.errors import GridsteadError, InvalidInput
from gridstead.ports import Clock, Databases, ObjectStore, ReplicaFiles, Signatures, Upstream
from gridstead.services.cvmfs_pull import Diligence, Puller, Tell, walk
from gridstead.services.cvmfs_signed_files import (
    check_consent,
    read_signed_files,
    stored_signed_files,
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPorts:
    """A replica's outside world."""

    upstream: Upstream
    signatures: Signatures
    objects: ObjectStore
    databases: Databases
    files: ReplicaFiles
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a replica works.

    Attributes:
        workers: Objects that are fetched at a time.
        keep_s: How long a revision is kept after another took its place.
        sweep_every_s: From one removal of old objects to the next, when ``tick`` does it.
    """

    workers: int
    keep_s: int
    sweep_every_s: int


class Replica:
    """One repository's replica.

    Args:
        name: Of the repository.
        ports: Its outside world.
        habits: How it works.
    """

    def __init__(self, name: str, ports: ReplicaPorts, habits: Habits) -> None:
        self._name = name
        self._ports = ports
        self._habits = habits
        self._stopped = threading.Event()

    @property
    def name(self) -> str:
        """Return the repository's name."""
        return self._name

    def stop(self) -> None:
        """End a pull that runs, soon; it fails, and the next goes on where it was."""
        self._stopped.set()

    def state(self) -> ReplicaState:
        """Return what the replica remembers."""
        return self._ports.files.load()

    def tick(self) -> None:
        """Pull, and remove old objects when it is time; told in the log.

        Raises:
            GridsteadError: Of what did not end well.
        """
        pulled = self.snapshot()
        log.info(
            "snapshot_finished",
            repository=self._name,
            revision=pulled.revision,
            fetched=pulled.fetched,
            fetched_bytes=pulled.fetched_bytes,
        )
        served, last = (
            stored_signed_files(self._ports.files, self._name),
            self.state().last_sweep or 0,
        )
        if (
            served
            and served[0].collectable
            and self._ports.clock.now() - last >= self._habits.sweep_every_s
        ):
            swept = self.sweep()
            log.info(
                "objects_swept",
                repository=self._name,
                removed=swept.removed,
                removed_bytes=swept.removed_bytes,
            )

    def snapshot(
        self, *, check: bool = False, allow_rollback: bool = False, tell: Tell = lambda _: None
    ) -> Pulled:
        """Pull the newest revision.

        Args:
            check: Whether to read every object that is here, and fetch again what is damaged.
            allow_rollback: Whether an older revision may take the place of the one that is here.
            tell: Is told what was done so far.

        Returns:
            What was done.

        Raises:
            RepositoryUntrusted: What the server gave is not as it was signed; what is served stays
                as it was.
            ReplicaBusy: Another process works on this replica.
        """
        files = self._ports.files
        with self._alone(), self._announced():
            state = files.load()
            signed_files = self._signed_files(allow_rollback=allow_rollback)
            if check:
                files.save(replace(state, doubted=True))
            diligence = Diligence(walk=check or state.doubted, check=check)
            pulled = self._pull(signed_files, diligence, tell)
            now = self._ports.clock.now()
            state = take(replace(state, doubted=False), to_revision(signed_files.manifest), now=now)
            state = retain(state, now=now, keep_s=self._habits.keep_s)
            expires_at = signed_files.whitelist.expires_at
            files.save(
                replace(state, whitelist_expires_at=expires_at)
            )  # names the revision before it is served
            files.publish(signed_files)
            files.save(
                replace(state, whitelist_expires_at=expires_at, last_snapshot=now, failure="")
            )
            return replace(pulled, revision=signed_files.manifest.revision)

    def sweep(self, *, dry_run: bool = False) -> Swept:
        """Remove objects that no kept revision names: the served one, those superseded not long
        ago, those with a tag.

        Raises:
            InvalidInput: There is no revision yet, or the publisher does not let go of old ones.
            ReplicaBusy: Another process works on this replica.
        """
        files, now = self._ports.files, self._ports.clock.now()
        with self._alone():
            served = stored_signed_files(self._ports.files, self._name)
            if served is None:
                raise InvalidInput(
                    f"nothing of {self._name} is here", hint="Run `gridstead cvmfs snapshot` first."
                )
            if not served[0].collectable:
                detail = (
                    "its manifest does not say G=yes: clients may read any revision there ever was"
                )
                raise InvalidInput(f"old objects of {self._name} must stay", detail=detail)
            before = files.load()
            state = retain(before, now=now, keep_s=self._habits.keep_s)
            kept = self._reachable((to_revision(served[0]), *state.revisions))
            if dry_run:
                return self._ports.objects.sweep(kept, dry_run=True)
            files.save(replace(before, doubted=True))
            swept = self._ports.objects.sweep(kept, dry_run=False)
            files.save(replace(state, doubted=before.doubted, last_sweep=now))
            return swept

    def _signed_files(self, *, allow_rollback: bool) -> SignedFiles:
        ports = self._ports
        check_consent(ports.upstream, self._name)
        signed_files = read_signed_files(
            ports.upstream, ports.signatures, name=self._name, now=ports.clock.now()
        )
        served = stored_signed_files(self._ports.files, self._name)
        if served is not None and not allow_rollback:
            check_succession(served, signed_files.manifest, signed_files.whitelist)
        return signed_files

    def _pull(self, signed_files: SignedFiles, diligence: Diligence, tell: Tell) -> Pulled:
        ports, manifest = self._ports, signed_files.manifest
        puller = Puller(
            upstream=ports.upstream,
            objects=ports.objects,
            databases=ports.databases,
            workers=self._habits.workers,
            diligence=diligence,
            stopped=self._stopped,
            tell=tell,
        )
        if not ports.objects.has(manifest.certificate, check=diligence.check):
            ports.objects.put(manifest.certificate, (signed_files.certificate,))
        if manifest.metainfo is not None:
            puller.fetch(manifest.metainfo)
        if manifest.history is not None:
            puller.fetch(manifest.history)
            for tagged in ports.databases.tagged(manifest.history):
                puller.pull(tagged)
        puller.pull(manifest.catalog)
        ports.objects.settle()
        return puller.done

    def _reachable(self, revisions: Iterable[Revision]) -> Iterator[ObjectName]:
        databases, seen = self._ports.databases, set[ObjectName]()
        for revision in revisions:
            for root in revision.roots:
                yield root
                if root.kind is ObjectKind.CATALOG:
                    yield from walk(databases, root, seen)
                if root.kind is ObjectKind.HISTORY:
                    for tagged in databases.tagged(root):
                        yield from walk(databases, tagged, seen)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Have the replica for oneself; what fails is remembered."""
        files = self._ports.files
        with files.lock():
            try:
                yield
            except GridsteadError as error:
                if not isinstance(error, InvalidInput):
                    files.save(replace(files.load(), failure=f"{error.code}: {error}"))
                raise

    @contextmanager
    def _announced(self) -> Iterator[None]:
        files = self._ports.files
        files.announce(self._ports.clock.now())
        try:
            yield
        finally:
            files.announce(None)
