# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the CVMFS tests: a publisher, its web server, and replicas in a temporary folder.

A publisher signs a CVMFS repository. The web server of the publisher is the *Stratum 0*. A
*replica* is a copy of the repository. A *pull* copies the newest revision to the replica.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import tests.conftest  # noqa: F401 - the settings of all tests
from cvmfs.tests.publisher import DAY_S, NOW, Publisher, new_key
from cvmfs.tests.readers import ReaderFactory
from cvmfs.tests.stratum0 import Stratum0

from gridstead_cvmfs.adapters.databases import CompressedDatabases
from gridstead_cvmfs.adapters.files import DiskFiles
from gridstead_cvmfs.adapters.objects import DiskObjects
from gridstead_cvmfs.adapters.signatures import RsaSignatures
from gridstead_cvmfs.adapters.upstream import FetchLimits, HttpUpstream
from gridstead_cvmfs.services.replica import Replica, ReplicaPolicy, ReplicaPorts

TLS = ssl.create_default_context()  # created only once, because it is slow
KEEP_S = 3 * DAY_S


@dataclass
class ManualClock:
    """A clock that a test sets."""

    seconds: int = NOW

    def now(self) -> int:
        return self.seconds


@dataclass
class ReplicaSetup:
    """A Stratum 0 and a folder for the replica. ``key_file`` has the public master key."""

    publisher: Publisher
    stratum0: Stratum0
    storage: Path
    key_file: Path
    clock: ManualClock = field(default_factory=ManualClock)
    closing: list[Callable[[], None]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The folder of the replica."""
        return self.storage / self.publisher.name

    def replica(
        self,
        *,
        key_file=None,
        name="",
        timeout_s=5.0,
        catalog_bytes=2**22,
        min_free_bytes=0,
        workers=4,
    ):
        """Return a new object for the replica, as a new process would create."""
        limits = FetchLimits(timeout_s=timeout_s, object_bytes=2**20, connections=workers + 1)
        upstream = HttpUpstream(self.stratum0.url, limits, tls=TLS, wait=lambda _: None)
        self.closing.append(upstream.close)
        name = name or self.publisher.name
        objects = DiskObjects(self.storage / name, min_free_bytes=min_free_bytes)
        ports = ReplicaPorts(
            upstream=upstream,
            signatures=RsaSignatures([key_file or self.key_file]),
            objects=objects,
            databases=CompressedDatabases(objects, max_bytes=catalog_bytes),
            files=DiskFiles(self.storage, name),
            clock=self.clock,
        )
        policy = ReplicaPolicy(workers=workers, keep_s=KEEP_S, sweep_every_s=DAY_S)
        return Replica(name, ports, policy)

    def objects(self) -> set[str]:
        """Return the paths of all objects of the replica."""
        return {str(path.relative_to(self.folder)) for path in (self.folder / "data").glob("??/*")}

    def served_file(self, name=".cvmfspublished") -> bytes | None:
        """Return the content of a file of the replica, or None if the file does not exist."""
        file = self.folder / name
        return file.read_bytes() if file.is_file() else None

    def is_identical(self) -> bool:
        """Return whether the replica has all published files, byte for byte."""
        paths = {".cvmfspublished", ".cvmfswhitelist"} | self.publisher.objects()
        return all(self.is_same_file(path) for path in paths)

    def is_same_file(self, path: str) -> bool:
        """Return whether a file of the replica has the published content."""
        published_content = (self.publisher.root / path).read_bytes()
        return self.served_file(path) == published_content


@pytest.fixture(scope="session")
def keys():
    """Two keys. All tests share these keys, because the creation of a key is slow."""
    return new_key(), new_key()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, where fsync takes no time."""
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="gs-cvmfs-", dir=parent) as name:
        yield Path(name)


@pytest.fixture
def new_setup(folder, keys) -> Iterator[Callable[..., ReplicaSetup]]:
    """A function that creates a publisher with its web server and an empty replica."""
    setups: list[ReplicaSetup] = []

    def make(**publisher_fields) -> ReplicaSetup:
        setup_folder = folder / f"setup-{len(setups)}"
        publisher = Publisher(
            setup_folder / "stratum0", master=keys[0], signer=keys[1], **publisher_fields
        )
        key_file = publisher.public_key(setup_folder / "master.pub")
        storage = setup_folder / "replicas"
        storage.mkdir()
        stratum0 = Stratum0(publisher.root, publisher.name)
        setups.append(ReplicaSetup(publisher, stratum0, storage, key_file))
        return setups[-1]

    yield make
    for replica_setup in setups:
        for close in replica_setup.closing:
            close()
        replica_setup.stratum0.close()


@pytest.fixture
def replica_setup(new_setup) -> ReplicaSetup:
    """A publisher with one published revision, and an empty replica."""
    setup = new_setup()
    setup.publisher.publish()
    return setup


@pytest.fixture
def new_reader(replica_setup) -> Iterator[ReaderFactory]:
    """An object that creates CVMFS clients. All these clients use one cache folder."""
    factory = ReaderFactory(replica_setup, TLS)
    yield factory
    for servers in factory.closing:
        servers.close()
