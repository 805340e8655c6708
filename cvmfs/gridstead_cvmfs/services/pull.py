# SPDX-License-Identifier: Apache-2.0
"""Fetches a tree of catalogs and all objects that the catalogs list.

Rule: a catalog becomes a stored object only after all objects below it. Therefore a stored catalog
proves that its whole tree is stored. An interrupted pull resumes, and a pull of a new revision
fetches only new objects.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from gridstead_cvmfs.domain.objects import ObjectName
from gridstead_cvmfs.domain.replica import PullResult
from gridstead_cvmfs.errors import RepositoryUnavailable, RepositoryUntrusted
from gridstead_cvmfs.ports import Databases, ObjectStore, Upstream

MAX_DEPTH = 256
QUEUED_PER_WORKER = 8

ReportProgress = Callable[[PullResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions:
    """Options that say which stored objects a pull reads again.

    Attributes:
        walk: Whether to read the stored catalogs again, and the catalogs below them.
        check: Whether to read every stored object, and fetch damaged objects again. Requires
            ``walk``.
    """

    walk: bool = False
    check: bool = False


@dataclass(slots=True)
class _Visit:
    """A catalog that is being pulled. ``nested`` is None until the catalog has been read."""

    catalog: ObjectName
    nested: list[ObjectName] | None = None


@dataclass(slots=True)
class Puller:
    """Carries out one pull.

    Attributes:
        upstream: The server from which objects are fetched.
        objects: The store to which objects are written.
        databases: Reads catalogs.
        workers: The number of simultaneous fetches.
        options: Which stored objects are read again.
        stopped: If this event is set, the pull fails soon.
        report: Receives the progress. Several threads call it.
        progress: The progress so far.
    """

    upstream: Upstream
    objects: ObjectStore
    databases: Databases
    workers: int
    options: PullOptions
    stopped: threading.Event
    report: ReportProgress
    progress: PullResult = field(default_factory=PullResult)
    _pulled: set[ObjectName] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fetch(self, name: ObjectName) -> None:
        """Fetch an object unless it is stored.

        Raises:
            RepositoryUnavailable: If the server does not answer, or the pull was stopped.
        """
        self._check_stopped()
        size = None
        if not self.objects.has(name, check=self.options.check):
            size = self.upstream.fetch_object(name, lambda pieces: self.objects.put(name, pieces))
        self._count(size)

    def pull(self, root: ObjectName) -> None:
        """Fetch a catalog and everything that it lists, at any depth. Skip stored objects."""
        visits = [_Visit(root)]  # from the root to the current catalog
        with ThreadPoolExecutor(self.workers, thread_name_prefix="cvmfs") as pool:
            while visits:
                visit = visits[-1]
                if visit.nested is None:
                    visit.nested = []
                    if not self._is_complete(visit.catalog):
                        visit.nested = self._enter(visit.catalog, pool)
                if visit.nested:
                    visits.append(_Visit(visit.nested.pop()))
                    if len(visits) > MAX_DEPTH:
                        raise RepositoryUntrusted(f"catalogs below {root} are nested too deep")
                    continue
                # Everything below the current catalog has been pulled.
                self._leave(visits.pop().catalog)

    def _is_complete(self, catalog: ObjectName) -> bool:
        if catalog in self._pulled:
            return True
        return not self.options.walk and self.objects.has(catalog)

    def _enter(self, catalog: ObjectName, pool: ThreadPoolExecutor) -> list[ObjectName]:
        """Fetch a catalog and its files, and return its nested catalogs."""
        size = None
        is_stored = self.objects.has(catalog, check=self.options.check)
        if not is_stored and not self.objects.is_staged(catalog):
            size = self.upstream.fetch_object(
                catalog, lambda pieces: self.objects.stage(catalog, pieces)
            )
        self._count(size, catalogs=1)
        with self.databases.catalog(catalog) as opened_catalog:
            self._fetch_all(opened_catalog.objects(), pool)
            return [name for name in opened_catalog.nested() if name not in self._pulled]

    def _leave(self, catalog: ObjectName) -> None:
        """Make a catalog a stored object. Everything below the catalog must be stored already."""
        if self.objects.is_staged(catalog):
            self.objects.store_staged(catalog)
        self._pulled.add(catalog)

    def _fetch_all(self, names: Iterable[ObjectName], pool: ThreadPoolExecutor) -> None:
        """Fetch objects in parallel.

        The first failure is raised after all running fetches have ended.
        """
        running_fetches: dict[ObjectName, Future[None]] = {}
        try:
            for name in names:
                if name in running_fetches:
                    continue
                running_fetches[name] = pool.submit(self.fetch, name)
                if len(running_fetches) >= self.workers * QUEUED_PER_WORKER:
                    running_fetches = _wait_for_some(running_fetches)
            while running_fetches:
                running_fetches = _wait_for_some(running_fetches)
        finally:
            for future in running_fetches.values():
                future.cancel()
            wait(running_fetches.values())

    def _check_stopped(self) -> None:
        if self.stopped.is_set():
            raise RepositoryUnavailable("pull was stopped", hint="The next pull resumes.")

    def _count(self, size: int | None, *, catalogs: int = 0) -> None:
        """Add an object to the progress. ``size`` is None if the object was not fetched."""
        with self._lock:
            progress = self.progress
            self.progress = replace(
                progress,
                objects=progress.objects + 1,
                fetched=progress.fetched + (0 if size is None else 1),
                fetched_bytes=progress.fetched_bytes + (size or 0),
                catalogs=progress.catalogs + catalogs,
            )
            self.report(self.progress)


def _wait_for_some(
    running_fetches: dict[ObjectName, Future[None]],
) -> dict[ObjectName, Future[None]]:
    """Wait until a fetch has ended, and return the fetches that are still running.

    If the fetch failed, its error is raised.
    """
    completed_fetches, _ = wait(running_fetches.values(), return_when=FIRST_COMPLETED)
    for future in completed_fetches:
        future.result()
    return {
        name: future for name, future in running_fetches.items() if future not in completed_fetches
    }


def walk(databases: Databases, root: ObjectName, visited: set[ObjectName]) -> Iterator[ObjectName]:
    """Yield a stored catalog and everything that it lists, at any depth.

    Args:
        databases: Reads catalogs.
        root: The catalog to start from.
        visited: Catalogs of earlier walks, which this walk skips. This walk adds the catalogs that
            it yields.
    """
    remaining_catalogs = [root]
    while remaining_catalogs:
        catalog = remaining_catalogs.pop()
        if catalog in visited:
            continue
        visited.add(catalog)
        yield catalog
        with databases.catalog(catalog) as opened_catalog:
            yield from opened_catalog.objects()
            remaining_catalogs.extend(opened_catalog.nested())
