# SPDX-License-Identifier: Apache-2.0
"""Fetches a tree of catalogs and all that they name.

Rule: a catalog becomes one of the objects only after everything below it. So a catalog that is here
proves that its whole tree is, an interrupted pull goes on where it was, and a new revision costs
what is new in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from gridstead.domain.cvmfs.objects import ObjectName
from gridstead.domain.cvmfs.replica import Pulled
from gridstead.errors import RepositoryUnavailable, RepositoryUntrusted
from gridstead.ports import Databases, ObjectStore, Upstream

MAX_DEPTH = 256
WAITING_PER_WORKER = 8

Tell = Callable[[Pulled], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diligence:
    """What a pull takes for granted.

    Attributes:
        walk: Whether to read catalogs that are here, too.
        check: Whether to read every object that is here, and fetch again what is damaged; wants
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

    Attributes:
        upstream: Where objects come from.
        objects: Where they go.
        databases: Reads catalogs.
        workers: How many are fetched at a time.
        diligence: What is taken for granted.
        stopped: When set, the pull ends soon, and fails.
        tell: Is told what was done so far, by several threads.
    """

    upstream: Upstream
    objects: ObjectStore
    databases: Databases
    workers: int
    diligence: Diligence
    stopped: threading.Event
    tell: Tell
    done: Pulled = field(default_factory=Pulled)
    _seen: set[ObjectName] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fetch(self, name: ObjectName) -> None:
        """Make sure that an object is here.

        Raises:
            RepositoryUnavailable: The server does not answer, or the pull was stopped.
        """
        self._check_stopped()
        size = None
        if not self.objects.has(name, check=self.diligence.check):
            size = self.upstream.fetch(name, lambda pieces: self.objects.put(name, pieces))
        self._count(size)

    def pull(self, root: ObjectName) -> None:
        """Make sure that a catalog is here, with all that it names, at any depth."""
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
        return catalog in self._seen or (not self.diligence.walk and self.objects.has(catalog))

    def _enter(self, catalog: ObjectName, pool: ThreadPoolExecutor) -> list[ObjectName]:
        """Fetch a catalog and its files; return the catalogs below it."""
        size = None
        if not (
            self.objects.has(catalog, check=self.diligence.check) or self.objects.is_staged(catalog)
        ):
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
        """Fetch objects, some at a time; the first failure is raised when none is on its way any
        more.
        """
        underway: dict[ObjectName, Future[None]] = {}
        try:
            for name in names:
                if name in underway:
                    continue
                underway[name] = pool.submit(self.fetch, name)
                if len(underway) >= self.workers * WAITING_PER_WORKER:
                    underway = _reap(underway)
            while underway:
                underway = _reap(underway)
        finally:
            for one in underway.values():
                one.cancel()
            wait(underway.values())

    def _check_stopped(self) -> None:
        if self.stopped.is_set():
            raise RepositoryUnavailable(
                "pull was stopped", hint="The next one goes on where it was."
            )

    def _count(self, size: int | None, *, catalogs: int = 0) -> None:
        with self._lock:
            self.done = replace(
                self.done,
                objects=self.done.objects + 1,
                fetched=self.done.fetched + (size is not None),
                fetched_bytes=self.done.fetched_bytes + (size or 0),
                catalogs=self.done.catalogs + catalogs,
            )
            self.tell(self.done)


def _reap(underway: dict[ObjectName, Future[None]]) -> dict[ObjectName, Future[None]]:
    """Wait for some, raise what one of them raised, and return the others."""
    done, _ = wait(underway.values(), return_when=FIRST_COMPLETED)
    for one in done:
        one.result()
    return {name: one for name, one in underway.items() if one not in done}


def walk(databases: Databases, root: ObjectName, seen: set[ObjectName]) -> Iterator[ObjectName]:
    """Yield a catalog that is here, and all that it names, at any depth; catalogs that were seen
    are left out.

    Args:
        databases: Reads catalogs.
        root: Where to begin.
        seen: Catalogs of walks before; those of this one are added.
    """
    left = [root]
    while left:
        catalog = left.pop()
        if catalog in seen:
            continue
        seen.add(catalog)
        yield catalog
        with databases.catalog(catalog) as opened:
            yield from opened.objects()
            left.extend(opened.nested())
