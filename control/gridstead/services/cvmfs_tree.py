# SPDX-License-Identifier: Apache-2.0
"""The tree of one revision: looks names up in the catalog that has them, and fetches catalogs when
they are needed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from gridstead.domain.cvmfs.objects import ObjectName
from gridstead.domain.cvmfs.tree import Piece, TreeEntry, parent_of
from gridstead.errors import RepositoryUntrusted
from gridstead.ports import TreeCatalog

MAX_DEPTH = 256
MAX_OPEN = 128

T = TypeVar("T")


class Tree:
    """One revision's tree. Any method may be called by several threads, also after ``close``.

    Attributes:
        root: Its root catalog.

    Args:
        root: The same.
        open_catalog: Returns a catalog that is here, or None.
        fetch: Makes a catalog be here.
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
        self._open: OrderedDict[ObjectName, TreeCatalog] = OrderedDict()
        self._lock = threading.Lock()

    def entry(self, path: str) -> TreeEntry | None:
        """Return what is at a path; None for nothing."""
        return self._ask(parent_of(path), lambda catalog: catalog.entry(path))

    def entries(self, path: str) -> tuple[TreeEntry, ...]:
        """Return what is in a directory."""
        return self._ask(path, lambda catalog: catalog.entries(path))

    def pieces(self, path: str, entry: TreeEntry) -> tuple[Piece, ...]:
        """Return the content of a file."""
        return self._ask(parent_of(path), lambda catalog: catalog.pieces(path, entry))

    def close(self) -> None:
        """Let go of its catalogs."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def _ask(self, folder: str, question: Callable[[TreeCatalog], T]) -> T:
        """Return what the catalog of a directory's content answers."""
        for _ in range(MAX_DEPTH):
            with self._lock:
                found = self._find(folder)
                if not isinstance(found, ObjectName):
                    return question(found)
            self._fetch(found)  # may take long: others look up meanwhile
        raise RepositoryUntrusted(
            f"catalogs below {self.root} are nested too deep, or do not stay in the cache"
        )

    def _find(self, folder: str) -> TreeCatalog | ObjectName:
        """Return the catalog of a directory's content, or the first on the way to it that is not
        here.
        """
        name, depth = self.root, 0
        names = folder.split("/")[1:]
        while True:
            catalog = self._opened(name)
            if catalog is None:
                return name
            nested = catalog.nested()
            deeper = range(depth + 1, len(names) + 1) if nested else ()
            found = next((end for end in deeper if "/" + "/".join(names[:end]) in nested), None)
            if found is None:
                return catalog
            name, depth = nested["/" + "/".join(names[:found])], found

    def _opened(self, name: ObjectName) -> TreeCatalog | None:
        catalog = self._open.pop(name, None) or self._open_catalog(name)
        if catalog is not None:
            self._open[name] = catalog
            if len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)[1].close()
        return catalog
