# SPDX-License-Identifier: Apache-2.0
"""Fetches a tree of catalogs and all objects that the catalogs list.

Rule: a catalog becomes a stored object only after everything below it. So a stored catalog proves
that its whole tree is stored. An interrupted pull resumes, and a new revision fetches only what is
new.
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
WAITING_PER_WORKER = 8

ReportProgress = Callable[[PullResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions:
    """Which stored objects a pull reads again.

    Attributes:
        walk: Whether to read stored catalogs too.
        check: Whether to read every stored object, and fetch damaged objects again. Requires
            ``walk``.
    """

    walk: bool = False
    check: bool = False


@dataclass(slots=True)
class _Visit:
    catalog: ObjectName
    nested: list[ObjectName] | None = None


@dataclass(slots=True)
class Puller:
    """One pull.

    upstream: The server that objects are fetched from.
    objects: The store that objects are written to.
    databases: Reads catalogs.
    workers: The number of simultaneous fetches.
    options: Which stored objects are read again.
    stopped: If it is set, the pull fails soon.
    report: Receives the progress. Several threads call it.
    """

    upstream: Upstream
    objects: ObjectStore
    databases: Databases
    workers: int
    options: PullOptions
    stopped: threading.Event
    report: ReportProgress
    done: PullResult = field(default_factory=PullResult)
    _seen: set[ObjectName] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fetch(self, name: ObjectName) -> None:
        """Fetch an object unless it is stored.

        Raises:
            RepositoryUnavailable: If the server does not answer, or the pull was stopped.
        """
        self._check_stopped()
        size = None
        if not self.objects.has(name, check=self.options.check):
            size = self.upstream.fetch(name, lambda pieces: self.objects.put(name, pieces))
        self._count(size)

    def pull(self, root: ObjectName) -> None:
        """Fetch a catalog and everything that it lists, at any depth, unless it is stored."""
        path = [_Visit(root)]
        with ThreadPoolExecutor(self.workers, thread_name_prefix="cvmfs") as pool:
            while path:
                visit = path[-1]
                if visit.nested is None:
                    visit.nested = (
                        [] if self._is_done(visit.catalog) else self._enter(visit.catalog, pool)
                    )
                if visit.nested:
                    path.append(_Visit(visit.nested.pop()))
                    if len(path) > MAX_DEPTH:
                        raise RepositoryUntrusted(f"catalogs below {root} are nested too deep")
                    continue
                self._leave(path.pop().catalog)

    def _is_done(self, catalog: ObjectName) -> bool:
        return catalog in self._seen or (not self.options.walk and self.objects.has(catalog))

    def _enter(self, catalog: ObjectName, pool: ThreadPoolExecutor) -> list[ObjectName]:
        """Fetch a catalog and its files, and return its nested catalogs."""
        size = None
        is_stored = self.objects.has(catalog, check=self.options.check)
        if not is_stored and not self.objects.is_staged(catalog):
            size = self.upstream.fetch(catalog, lambda pieces: self.objects.stage(catalog, pieces))
        self._count(size, catalogs=1)
        with self.databases.catalog(catalog) as opened:
            self._fetch_all(opened.objects(), pool)
            return [name for name in opened.nested() if name not in self._seen]

    def _leave(self, catalog: ObjectName) -> None:
        if self.objects.is_staged(catalog):
            self.objects.place(catalog)
        self._seen.add(catalog)

    def _fetch_all(self, names: Iterable[ObjectName], pool: ThreadPoolExecutor) -> None:
        """Fetch objects in parallel.

        The first failure is raised after all running fetches have ended.
        """
        underway: dict[ObjectName, Future[None]] = {}
        try:
            for name in names:
                if name in underway:
                    continue
                underway[name] = pool.submit(self.fetch, name)
                if len(underway) >= self.workers * WAITING_PER_WORKER:
                    underway = _wait_for_some(underway)
            while underway:
                underway = _wait_for_some(underway)
        finally:
            for future in underway.values():
                future.cancel()
            wait(underway.values())

    def _check_stopped(self) -> None:
        if self.stopped.is_set():
            raise RepositoryUnavailable("pull was stopped", hint="The next pull resumes.")

    def _count(self, size: int | None, *, catalogs: int = 0) -> None:
        with self._lock:
            self.done = replace(
                self.done,
                objects=self.done.objects + 1,
                fetched=self.done.fetched + (size is not None),
                fetched_bytes=self.done.fetched_bytes + (size or 0),
                catalogs=self.done.catalogs + catalogs,
            )
            self.report(self.done)


def _wait_for_some(underway: dict[ObjectName, Future[None]]) -> dict[ObjectName, Future[None]]:
    """Wait until a fetch ends, raise its failure, and return the fetches that still run."""
    done, _ = wait(underway.values(), return_when=FIRST_COMPLETED)
    for future in done:
        future.result()
    return {name: future for name, future in underway.items() if future not in done}


def walk(databases: Databases, root: ObjectName, seen: set[ObjectName]) -> Iterator[ObjectName]:
    """Yield a stored catalog and everything that it lists, at any depth.

    Args:
        databases: Reads catalogs.
        root: The catalog to start from.
        seen: Catalogs to skip, from earlier walks. This walk adds its catalogs.
    """
    remaining = [root]
    while remaining:
        catalog = remaining.pop()
        if catalog in seen:
            continue
        seen.add(catalog)
        yield catalog
        with databases.catalog(catalog) as opened:
            yield from opened.objects()
            remaining.extend(opened.nested())
