# SPDX-License-Identifier: Apache-2.0
"""A CVMFS client: shows the newest trusted revision of a repository, and fetches files on demand.

Rule 1: signed files pass the same checks as in a replica, and a rollback is refused.
Rule 2: an open file does not change until all processes on this host have closed it, because the
kernel has only one copy of its content and size.
Rule 3: while the kernel caches the attributes of a file, the client opens the file with these
attributes. The cached size is therefore the size of the content.
Rule 4: while no server answers, cached content is served. Other requests fail and are logged.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from gridstead.errors import GridsteadError
from gridstead.ports.clock import Clock
from gridstead_cvmfs.domain.tree import FileChunk, TreeEntry
from gridstead_cvmfs.domain.trust import SignedFiles, check_no_rollback
from gridstead_cvmfs.errors import RepositoryUntrusted
from gridstead_cvmfs.ports import (
    Content,
    ContentCache,
    ObjectStore,
    ReplicaFiles,
    Signatures,
    Upstream,
)
from gridstead_cvmfs.services.fetch import Fetcher
from gridstead_cvmfs.services.signed_files import read_signed_files, stored_signed_files
from gridstead_cvmfs.services.tree import Tree

log = structlog.get_logger()

KERNEL_CACHE_MAX_S = 3.0  # the kernel caches attributes for a shorter time
MAX_LAST_CONTENTS = 10_000  # maximum number of files whose last opened content is remembered
LOG_EVERY_S = 1.0
ROLLBACK_HINT = (
    "If the publisher rolled back on purpose, remove the client's cache of this repository and"
    " mount it again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CvmfsClientPorts:
    """The ports of a client.

    Attributes:
        servers: At least one server, in the order in which signed files are requested.
        upstream: All servers as one source, from which objects are requested.
        signed_files: The stored signed files, for use when no server answers.
        signatures: The repository's master keys.
        files: Stores signed files.
        objects: Stores certificates.
        cache: Stores all other objects.
        clock: Returns the current time.
        monotonic: Returns the time of a monotonic clock. Unit: seconds.
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
class _OpenFile:
    """An open file: its unchanging entry and content, and the number of its handles."""

    entry: TreeEntry
    chunks: tuple[FileChunk, ...]
    count: int = 0


@dataclass(slots=True)
class _Handle:
    path: str
    file: _OpenFile
    chunk: FileChunk | None = None
    content: Content | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class CvmfsClient:
    """The client of one repository. Several threads may call any method.

    Args:
        name: The name of the repository.
        ports: The ports of the client.
        max_catalog_bytes: The maximum decompressed size of a catalog.
    """

    def __init__(self, name: str, ports: CvmfsClientPorts, *, max_catalog_bytes: int) -> None:
        self._name = name
        self._ports = ports
        self._fetcher = Fetcher(ports.upstream, ports.cache, max_catalog_bytes=max_catalog_bytes)
        self._tree: Tree | None = None
        # For each path that the kernel may cache: its entry, its tree, and the time of the look-up.
        self._kernel_entries: OrderedDict[str, tuple[TreeEntry | None, Tree, float]] = OrderedDict()
        self._open_files: dict[str, _OpenFile] = {}
        self._handles: dict[int, _Handle] = {}
        self._handle_ids = iter(range(1, 2**62))  # ids of new handles
        self._last_contents: OrderedDict[str, tuple[FileChunk, ...]] = OrderedDict()
        self._lock = threading.Lock()
        self._next_log_s = 0.0

    def start(self) -> None:
        """Show a server's revision, or the stored revision if no server has a valid revision.

        Raises:
            GridsteadError: If there is no valid revision.
        """
        stored_files = stored_signed_files(self._ports.files, self._name)
        try:
            self.check_revision()
        except GridsteadError as error:
            if stored_files is None:
                raise
            self._log_failed_check(error)
            self._show(self._read_signed_files(self._ports.signed_files))

    def check_revision(self) -> None:
        """Show the revision of the first server whose signed files are valid.

        Raises:
            GridsteadError: If no server has valid signed files that are at least as new as the
                stored ones. The error is that of the first server. The shown revision does not
                change.
        """
        stored_files = stored_signed_files(self._ports.files, self._name)
        failures: list[GridsteadError] = []
        for server in self._ports.servers:
            try:
                signed_files = self._read_signed_files(server)
                if stored_files is not None:
                    check_no_rollback(
                        stored_files,
                        signed_files.manifest,
                        signed_files.whitelist,
                        hint=ROLLBACK_HINT,
                    )
                self._show(signed_files)
            except GridsteadError as error:
                failures.append(error)
            else:
                return
        raise failures[0]

    def tick(self) -> None:
        """Check for a new revision, and log a failure."""
        try:
            self.check_revision()
        except GridsteadError as error:
            self._log_failed_check(error)

    def entry(self, path: str) -> TreeEntry | None:
        """Return the entry at a path. None if there is no entry.

        Raises:
            GridsteadError: If a catalog cannot be read. The failure is logged.
        """
        with self._failures_logged(path):
            with self._lock:
                open_file = self._open_files.get(path)
            if open_file is not None:
                return open_file.entry
            tree = self._shown_tree()
            entry = tree.entry(path)
            with self._lock:
                self._remember_kernel_entry(path, entry, tree)
            return entry

    def entries(self, path: str) -> tuple[TreeEntry, ...]:
        """Return the entries of a directory.

        Raises:
            GridsteadError: If a catalog cannot be read. The failure is logged.
        """
        with self._failures_logged(path):
            return self._shown_tree().entries(path)

    def open(self, path: str) -> tuple[int, bool] | None:
        """Open a file.

        Returns:
            The id of a handle, and whether the content is the same as when the file was last
            opened. None if there is no such file.

        Raises:
            GridsteadError: If the content is not available. The failure is logged.
        """
        with self._failures_logged(path):
            file = self._find_file(path)
            if file is None:
                return None
            with self._lock:
                handle_id, handle = self._add_handle(path, file)
                is_same = self._is_last_content(path, handle.file.chunks)
            try:
                if len(handle.file.chunks) == 1:
                    self._open_content(handle, handle.file.chunks[0])
            except GridsteadError:
                self.release(handle_id)
                raise
            return handle_id, is_same

    def read(self, handle_id: int, size: int, offset: int) -> bytes:
        """Return ``size`` bytes of an open file from ``offset``; fewer at the end of the file.

        Raises:
            GridsteadError: If the content is not available. The failure is logged.
        """
        handle = self._handles[handle_id]
        data = bytearray()
        with self._failures_logged(handle.path), handle.lock:
            for chunk in handle.file.chunks:
                # The position of the next byte to read, relative to the start of the chunk.
                start = offset + len(data) - chunk.offset
                if 0 <= start < chunk.size and len(data) < size:
                    length = min(size - len(data), chunk.size - start)
                    data += self._open_content(handle, chunk).read(length, start)
        return bytes(data)

    def release(self, handle_id: int) -> None:
        """Close a handle."""
        with self._lock:
            handle = self._handles.pop(handle_id)
            handle.file.count -= 1
            if not handle.file.count:
                del self._open_files[handle.path]
        if handle.content is not None:
            handle.content.close()

    def _read_signed_files(self, upstream: Upstream) -> SignedFiles:
        return read_signed_files(
            upstream, self._ports.signatures, name=self._name, now=self._ports.clock.now()
        )

    def _show(self, signed_files: SignedFiles) -> None:
        """Fetch the root catalog of a revision into the cache, and then show the revision."""
        ports, manifest = self._ports, signed_files.manifest
        old_tree = tree = self._tree
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
        if tree is old_tree:
            return
        self._tree = tree
        log.info("revision_shown", repository=self._name, revision=manifest.revision)
        if old_tree is not None:
            old_tree.close()

    def _shown_tree(self) -> Tree:
        assert self._tree is not None, "start() was not called"
        return self._tree

    def _remember_kernel_entry(self, path: str, entry: TreeEntry | None, tree: Tree) -> None:
        """Remember an entry that the kernel caches. Forget entries that it caches no longer."""
        now = self._ports.monotonic()
        self._kernel_entries.pop(path, None)
        self._kernel_entries[path] = entry, tree, now
        while True:  # the loop ends when the oldest entry is recent
            _, _, oldest = next(iter(self._kernel_entries.values()))
            if oldest >= now - KERNEL_CACHE_MAX_S:
                return
            self._kernel_entries.popitem(last=False)

    def _find_file(self, path: str) -> _OpenFile | None:
        with self._lock:
            open_file = self._open_files.get(path)
            if open_file is not None:
                return open_file
            kernel_entry = self._kernel_entries.get(path)
        oldest_valid = self._ports.monotonic() - KERNEL_CACHE_MAX_S
        entry, tree, looked_up_at = kernel_entry or (None, None, 0.0)
        if tree is None or looked_up_at <= oldest_valid:
            tree = self._shown_tree()
            entry = tree.entry(path)
        if entry is None or not entry.is_file:
            return None
        return _OpenFile(entry, tree.chunks(path, entry))

    def _add_handle(self, path: str, file: _OpenFile) -> tuple[int, _Handle]:
        """Add a handle of a file. If another thread has just opened the file, use its _OpenFile."""
        file = self._open_files.setdefault(path, file)
        file.count += 1
        handle_id = next(self._handle_ids)
        handle = self._handles[handle_id] = _Handle(path, file)
        return handle_id, handle

    def _is_last_content(self, path: str, chunks: tuple[FileChunk, ...]) -> bool:
        """Remember the content of an opened file. Return whether the last content was the same."""
        is_same = self._last_contents.pop(path, None) == chunks
        self._last_contents[path] = chunks
        if len(self._last_contents) > MAX_LAST_CONTENTS:
            self._last_contents.popitem(last=False)
        return is_same

    def _open_content(self, handle: _Handle, chunk: FileChunk) -> Content:
        """Return the content of a chunk. A handle has one open chunk at a time."""
        if handle.chunk is chunk and handle.content is not None:
            return handle.content
        content = self._fetcher.content(chunk)
        if handle.content is not None:
            handle.content.close()
        handle.chunk, handle.content = chunk, content
        return content

    def _log_failed_check(self, error: GridsteadError) -> None:
        log.error(
            "look_failed",
            repository=self._name,
            code=error.code,
            reason=str(error),
            hint=error.hint,
        )

    @contextmanager
    def _failures_logged(self, path: str) -> Iterator[None]:
        """Log a failure, at most one line per second."""
        try:
            yield
        except GridsteadError as error:
            if self._is_log_due():
                log.error(
                    "access_failed",
                    repository=self._name,
                    path=path,
                    code=error.code,
                    reason=str(error),
                )
            raise

    def _is_log_due(self) -> bool:
        now = self._ports.monotonic()
        with self._lock:
            if now < self._next_log_s:
                return False
            self._next_log_s = now + LOG_EVERY_S
            return True
