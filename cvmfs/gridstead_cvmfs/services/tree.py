# SPDX-License-Identifier: Apache-2.0
"""The tree of one revision, which finds the catalog of a path and fetches missing catalogs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gridstead_cvmfs.domain.objects import ObjectName
from gridstead_cvmfs.domain.tree import FileChunk, TreeEntry, parent_of
from gridstead_cvmfs.errors import RepositoryUntrusted
from gridstead_cvmfs.ports import TreeCatalog

MAX_DEPTH = 256
MAX_OPEN_CATALOGS = 128

T = TypeVar("T")


class Tree:
    """The tree of one revision. Several threads may call any method, even after ``close``.

    Attributes:
        root: The root catalog.

    Args:
        root: The root catalog.
        open_catalog: Returns a cached catalog, or None.
        fetch: Fetches a catalog into the cache.
    """

    def __init__(
        self,
        root: ObjectName,
        open_catalog: Callable[[ObjectName], TreeCatalog | None],
        fetch: Callable[[ObjectName], None],
    ) -> None:
        self.root = root
        self._open_catalog = open_catalog
        self._fetch = fetch
        self._open_catalogs: OrderedDict[ObjectName, TreeCatalog] = OrderedDict()
        self._lock = threading.Lock()

    def entry(self, path: str) -> TreeEntry | None:
        """Return the entry at a path. None if there is no entry."""
        return self._query(parent_of(path), lambda catalog: catalog.entry(path))

    def entries(self, path: str) -> tuple[TreeEntry, ...]:
        """Return the entries of a directory, except hidden entries."""
        return self._query(path, lambda catalog: catalog.entries(path))

    def chunks(self, path: str, entry: TreeEntry) -> tuple[FileChunk, ...]:
        """Return the chunks of a file, in order."""
        return self._query(parent_of(path), lambda catalog: catalog.chunks(path, entry))

    def close(self) -> None:
        """Close the catalogs."""
        with self._lock:
            while self._open_catalogs:
                _, catalog = self._open_catalogs.popitem()
                catalog.close()

    def _query(self, folder: str, query: Callable[[TreeCatalog], T]) -> T:
        """Return the result of a query to the catalog that lists a directory.

        Each repetition fetches one missing catalog on the path to the directory.
        """
        for _ in range(MAX_DEPTH):
            with self._lock:
                catalog_or_name = self._find_catalog(folder)
                if not isinstance(catalog_or_name, ObjectName):
                    return query(catalog_or_name)
            self._fetch(catalog_or_name)  # without the lock, because a fetch may take long
        raise RepositoryUntrusted(
            f"catalogs below {self.root} are nested too deep, or the cache is too small for them"
        )

    def _find_catalog(self, folder: str) -> TreeCatalog | ObjectName:
        """Return the catalog that lists a directory.

        If a catalog on the path of the directory is not cached, returns the name of that catalog.
        """
        name, depth = self.root, 0
        components = folder.split("/")[1:]
        while True:
            catalog = self._open_cached(name)
            if catalog is None:
                return name
            nested_catalogs = catalog.nested()
            mount_path = _first_nested_path(nested_catalogs, components, depth)
            if mount_path is None:
                return catalog
            name, depth = nested_catalogs[mount_path], mount_path.count("/")

    def _open_cached(self, name: ObjectName) -> TreeCatalog | None:
        catalog = self._open_catalogs.pop(name, None) or self._open_catalog(name)
        if catalog is not None:
            self._open_catalogs[name] = catalog
            if len(self._open_catalogs) > MAX_OPEN_CATALOGS:
                _, oldest_catalog = self._open_catalogs.popitem(last=False)
                oldest_catalog.close()
        return catalog


def _first_nested_path(
    nested: Mapping[str, ObjectName], components: Sequence[str], depth: int
) -> str | None:
    """Return the path of the first nested catalog on the way to a directory, if there is one.

    ``components`` are those of the directory's path. ``depth`` is the number of components of
    the current catalog's path. The returned path has more components.
    """
    if not nested:
        return None
    for length in range(depth + 1, len(components) + 1):
        path = "/" + "/".join(components[:length])
        if path in nested:
            return path
    return None
