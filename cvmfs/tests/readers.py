# SPDX-License-Identifier: Apache-2.0
"""CVMFS clients whose methods tests call directly, without a mount in the kernel."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cvmfs.tests.publisher import NAME
from cvmfs.tests.trees import TREE, Mode, Nested, Symlink

from gridstead_cvmfs.adapters.cache import DiskCache
from gridstead_cvmfs.adapters.files import DiskFiles
from gridstead_cvmfs.adapters.objects import DiskObjects
from gridstead_cvmfs.adapters.servers import Servers
from gridstead_cvmfs.adapters.signatures import RsaSignatures
from gridstead_cvmfs.adapters.signed_file_cache import CachedSignedFiles
from gridstead_cvmfs.adapters.upstream import FetchLimits, HttpUpstream
from gridstead_cvmfs.services.client import CvmfsClient, CvmfsClientPorts

NEWER = {"README": b"what this is now, and longer\n", "new": b"only now\n", "data": TREE["data"]}


@dataclass
class Reader:
    """A client, with methods that read files and directories through this client.

    Attributes:
        client: The client.
        seconds: A list with one number, the monotonic time of the client. A test can change it.
        cache: The folder of cached objects.
    """

    client: CvmfsClient
    seconds: list[float]
    cache: Path

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""
        open_result = self.client.open(path)
        assert open_result is not None
        handle_id, _ = open_result
        try:
            entry = self.client.entry(path)
            # Request one byte more than the size, to find content after the end.
            return self.client.read(handle_id, entry.size + 1, 0)
        finally:
            self.client.release(handle_id)

    def tree(self, path: str = "") -> dict:
        """Return the files and directories below a directory in the format of trees.py."""
        return {
            entry.name: self._read_node(f"{path}/{entry.name}", entry)
            for entry in self.client.entries(path)
        }

    def _read_node(self, path, entry):
        if entry.is_directory:
            return self.tree(path)
        return Symlink(entry.target) if entry.is_link else self.read(path)

    def cached_bytes(self) -> int:
        """Return the size of the cache."""
        return sum(file.stat().st_size for file in self.cache.glob("??/*"))


@dataclass
class ReaderFactory:
    """Creates clients that share a cache folder.

    Attributes:
        first_urls: Servers that a client queries before the Stratum 0.
        closing: The servers of the clients, which are closed at the end of the test.
    """

    replica_setup: object
    tls: ssl.SSLContext
    first_urls: list[str] = field(default_factory=list)
    closing: list = field(default_factory=list)

    def __call__(self, *, clock=None, key_file=None, cache_bytes=2**24, start=True) -> Reader:
        folder = self.replica_setup.storage / self.replica_setup.publisher.name
        limits = FetchLimits(timeout_s=5.0, object_bytes=2**20, connections=4, attempts=1)
        urls = [*self.first_urls, self.replica_setup.stratum0.url]
        seconds = [100.0]
        servers = Servers(
            (HttpUpstream(url, limits, tls=self.tls) for url in urls), monotonic=lambda: seconds[0]
        )
        self.closing.append(servers)
        files = DiskFiles(self.replica_setup.storage, NAME)
        objects = DiskObjects(folder, min_free_bytes=0)
        with files.lock():
            cache = DiskCache(folder / "content", max_bytes=cache_bytes)
        ports = CvmfsClientPorts(
            servers=servers.servers,
            upstream=servers,
            signed_files=CachedSignedFiles(files, objects),
            signatures=RsaSignatures([key_file or self.replica_setup.key_file]),
            files=files,
            objects=objects,
            cache=cache,
            clock=clock or self.replica_setup.clock,
            monotonic=lambda: seconds[0],
        )
        client = CvmfsClient(NAME, ports, max_catalog_bytes=2**22)
        if start:
            client.start()
        return Reader(client, seconds, folder / "content")


def contents_of(tree):
    """Return a copy of a tree, with bytes for each file and a dictionary for a nested catalog."""
    match tree:
        case Nested():
            return contents_of(tree.tree)
        case dict():
            return {name: contents_of(node) for name, node in tree.items()}
        case Mode():
            return contents_of(tree.node)
        case bytes() | Symlink():
            return tree
        case _:
            return tree.content
