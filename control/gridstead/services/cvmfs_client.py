# SPDX-License-Identifier: Apache-2.0
"""A CVMFS client: shows the newest revision of a repository that it believes, and fetches what is
read.

Rule 1: letters are believed as a replica believes them, and none takes the place of a newer one.
Rule 2: a file that is open stays what it was, for everybody on this machine, until nobody has it
open: the kernel keeps one copy of its content and its size. Rule 3: for the same reason a file is
opened as it was last told to be, for as long as the kernel may go by that. Rule 4: while no server
answers, what is here is served; the rest fails and is logged.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from gridstead.domain.cvmfs.tree import Piece, TreeEntry
from gridstead.domain.cvmfs.trust import SignedFiles, check_succession
from gridstead.errors import GridsteadError, RepositoryUntrusted
from gridstead.ports import (
    Clock,
    Content,
    ContentCache,
    ObjectStore,
    ReplicaFiles,
    Signatures,
    Upstream,
)
from gridstead.services.cvmfs_fetch import Fetcher
from gridstead.services.cvmfs_signed_files import read_signed_files, stored_signed_files
from gridstead.services.cvmfs_tree import Tree

log = structlog.get_logger()

TOLD_S = 3.0  # longer than the kernel goes by what it was told
SAME = 10_000  # files of which it is known what the kernel's copy is of
ONE_LINE_S = 1.0
ROLLBACK = (
    "If the publisher did go back, remove the client's cache of this repository and mount it again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CvmfsClientPorts:
    """A client's outside world.

    Attributes:
        servers: At least one, in the order in which they are asked for letters.
        upstream: All of them, for objects.
        letters: Letters as they are here, as a server would show them.
        signatures: The repository's master keys.
        files: Keeps letters.
        objects: Keeps certificates.
        cache: Keeps everything else.
        clock: Tells the time.
        monotonic: Tells seconds that never go back.
    """

    servers: tuple[Upstream, ...]
    upstream: Upstream
    signed_files: Upstream
    signatures: Signatures
    files: ReplicaFiles
    objects: ObjectStore
    cache: ContentCache
    clock: Clock
    monotonic: Callable[[], float]


@dataclass(slots=True)
class _Opened:
    """A file that somebody has open: how it is shown meanwhile, and by how many."""

    entry: TreeEntry
    pieces: tuple[Piece, ...]
    count: int = 0


@dataclass(slots=True)
class _Handle:
    path: str
    opened: _Opened
    piece: Piece | None = None
    content: Content | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class CvmfsClient:
    """One repository's client. Any method may be called by several threads.

    Args:
        name: Of the repository.
        ports: Its outside world.
        max_catalog_bytes: What a catalog may be, unpacked.
    """

    def __init__(self, name: str, ports: CvmfsClientPorts, *, max_catalog_bytes: int) -> None:
        self._name = name
        self._ports = ports
        self._fetcher = Fetcher(ports.upstream, ports.cache, max_catalog_bytes=max_catalog_bytes)
        self._tree: Tree | None = None
        self._told: OrderedDict[str, tuple[TreeEntry | None, Tree, float]] = OrderedDict()
        self._opened: dict[str, _Opened] = {}
        self._handles: dict[int, _Handle] = {}
        self._numbers = iter(range(1, 2**62))
        self._same: OrderedDict[str, tuple[Piece, ...]] = OrderedDict()
        self._lock = threading.Lock()
        self._next_line_s = 0.0

    def start(self) -> None:
        """Have a revision to show: the server's, or else the one that is here.

        Raises:
            GridsteadError: There is none that can be believed.
        """
        here = stored_signed_files(self._ports.files, self._name)
        try:
            self.check_revision()
        except GridsteadError as error:
            if here is None:
                raise
            log.error(
                "look_failed",
                repository=self._name,
                code=error.code,
                reason=str(error),
                hint=error.hint,
            )
            self._adopt(self._believed(self._ports.signed_files))

    def check_revision(self) -> None:
        """Show the revision of the first server that can be believed, if it is another.

        Raises:
            RepositoryUntrusted: It is not as it was signed, or older than what is here; that stays
                shown.
            RepositoryUnavailable: No server answers.
        """
        before = stored_signed_files(self._ports.files, self._name)
        failures: list[GridsteadError] = []
        for server in self._ports.servers:
            try:
                signed_files = self._believed(server)
                if before is not None:
                    check_succession(
                        before, signed_files.manifest, signed_files.whitelist, hint=ROLLBACK
                    )
                self._adopt(signed_files)
            except GridsteadError as error:
                failures.append(error)
            else:
                return
        raise failures[0]

    def tick(self) -> None:
        """Look, and tell in the log why that failed."""
        try:
            self.check_revision()
        except GridsteadError as error:
            log.error(
                "look_failed",
                repository=self._name,
                code=error.code,
                reason=str(error),
                hint=error.hint,
            )

    def entry(self, path: str) -> TreeEntry | None:
        """Return what is at a path; None for nothing.

        Raises:
            GridsteadError: That cannot be known; it is in the log.
        """
        with self._logged(path):
            with self._lock:
                opened = self._opened.get(path)
            if opened is not None:
                return opened.entry
            tree = self._shown()
            entry = tree.entry(path)
            with self._lock:
                self._note(path, entry, tree)
            return entry

    def entries(self, path: str) -> tuple[TreeEntry, ...]:
        """Return what is in a directory.

        Raises:
            GridsteadError: That cannot be known; it is in the log.
        """
        with self._logged(path):
            return self._shown().entries(path)

    def open(self, path: str) -> tuple[int, bool] | None:
        """Open a file: return a handle, and whether its content is what it was when it was last
        opened.

        Returns:
            None if there is no such file.

        Raises:
            GridsteadError: Its content cannot be had; that is in the log.
        """
        with self._logged(path):
            opened = self._to_open(path)
            if opened is None:
                return None
            with self._lock:
                opened = self._opened.setdefault(path, opened)
                opened.count += 1
                number = next(self._numbers)
                handle = self._handles[number] = _Handle(path, opened)
                same = self._same.pop(path, None) == opened.pieces
                self._same[path] = opened.pieces
                if len(self._same) > SAME:
                    self._same.popitem(last=False)
            try:
                if len(opened.pieces) == 1:
                    handle.piece, handle.content = (
                        opened.pieces[0],
                        self._fetcher.content(opened.pieces[0]),
                    )
            except GridsteadError:
                self.release(number)
                raise
            return number, same

    def read(self, number: int, size: int, offset: int) -> bytes:
        """Return bytes of an open file from there on; fewer at its end.

        Raises:
            GridsteadError: They cannot be had; that is in the log.
        """
        handle = self._handles[number]
        found = bytearray()
        with self._logged(handle.path), handle.lock:
            for piece in handle.opened.pieces:
                at = offset + len(found) - piece.offset
                if 0 <= at < piece.size and len(found) < size:
                    found += self._of(handle, piece).read(
                        min(size - len(found), piece.size - at), at
                    )
        return bytes(found)

    def release(self, number: int) -> None:
        """Close a handle."""
        with self._lock:
            handle = self._handles.pop(number)
            handle.opened.count -= 1
            if not handle.opened.count:
                del self._opened[handle.path]
        if handle.content is not None:
            handle.content.close()

    def _believed(self, upstream: Upstream) -> SignedFiles:
        return read_signed_files(
            upstream, self._ports.signatures, name=self._name, now=self._ports.clock.now()
        )

    def _adopt(self, signed_files: SignedFiles) -> None:
        """Show a revision, once its root is here."""
        ports, manifest, before = self._ports, signed_files.manifest, self._tree
        tree = before
        if tree is None or tree.root != manifest.catalog:
            tree = Tree(manifest.catalog, ports.cache.catalog, self._fetcher.catalog)
            root = tree.entry("")
            if root is None or not root.is_directory:
                raise RepositoryUntrusted(
                    f"root of {self._name} is not a directory", detail=str(manifest.catalog)
                )
        if not ports.objects.has(manifest.certificate):
            ports.objects.put(manifest.certificate, (signed_files.certificate,))
        ports.files.publish(signed_files)
        if tree is before:
            return
        self._tree = tree
        log.info("revision_shown", repository=self._name, revision=manifest.revision)
        if before is not None:
            before.close()

    def _shown(self) -> Tree:
        assert self._tree is not None, "start() came first"
        return self._tree

    def _note(self, path: str, entry: TreeEntry | None, tree: Tree) -> None:
        """Remember what the kernel was told, and forget what it no longer goes by."""
        now = self._ports.monotonic()
        self._told.pop(path, None)
        self._told[path] = entry, tree, now
        while next(iter(self._told.values()))[2] < now - TOLD_S:
            self._told.popitem(last=False)

    def _to_open(self, path: str) -> _Opened | None:
        with self._lock:
            if (opened := self._opened.get(path)) is not None:
                return opened
            entry, tree, at = self._told.get(path, (None, self._shown(), -TOLD_S))
        if at <= self._ports.monotonic() - TOLD_S:
            tree = self._shown()
            entry = tree.entry(path)
        if entry is None or not entry.is_file:
            return None
        return _Opened(entry, tree.pieces(path, entry))

    def _of(self, handle: _Handle, piece: Piece) -> Content:
        """Return the content of a piece; a handle holds one at a time."""
        if handle.piece is piece and handle.content is not None:
            return handle.content
        content = self._fetcher.content(piece)
        if handle.content is not None:
            handle.content.close()
        handle.piece, handle.content = piece, content
        return content

    @contextmanager
    def _logged(self, path: str) -> Iterator[None]:
        """Tell in the log what fails, a line a second at most."""
        try:
            yield
        except GridsteadError as error:
            now = self._ports.monotonic()
            with self._lock:
                due = now >= self._next_line_s
                self._next_line_s = now + ONE_LINE_S if due else self._next_line_s
            if due:
                log.error(
                    "access_failed",
                    repository=self._name,
                    path=path,
                    code=error.code,
                    reason=str(error),
                )
            raise
