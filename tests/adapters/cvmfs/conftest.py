# SPDX-License-Identifier: Apache-2.0
"""A publisher, its web server, and replicas of it on a disk of their own."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.adapters.cvmfs.readers import Readers
from tests.fakes.cvmfs import DAY_S, NOW, Publisher, new_key
from tests.fakes.stratum0 import Stratum0

from gridstead.adapters.cvmfs.databases import CompressedDatabases
from gridstead.adapters.cvmfs.files import DiskFiles
from gridstead.adapters.cvmfs.objects import DiskObjects
from gridstead.adapters.cvmfs.signatures import RsaSignatures
from gridstead.adapters.cvmfs.upstream import FetchLimits, HttpUpstream
from gridstead.services.cvmfs import Habits, Replica, ReplicaPorts

TLS = ssl.create_default_context()  # to make one takes time
KEEP_S = 3 * DAY_S


@dataclass
class HandClock:
    """A clock that is set by hand."""

    at: int = NOW

    def now(self) -> int:
        return self.at


@dataclass
class ReplicaSetup:
    """A Stratum 0 and where its replica is kept."""

    publisher: Publisher
    stratum0: Stratum0
    storage: Path
    key: Path
    clock: HandClock = field(default_factory=HandClock)
    closing: list[Callable[[], None]] = field(default_factory=list)

    @property
    def here(self) -> Path:
        """The replica's folder."""
        return self.storage / self.publisher.name

    def replica(
        self, *, key=None, name="", timeout_s=5.0, catalog_bytes=2**22, min_free=0, workers=4
    ):
        """Return a replica, as a new process has it."""
        limits = FetchLimits(timeout_s=timeout_s, object_bytes=2**20, connections=workers + 1)
        upstream = HttpUpstream(self.stratum0.url, limits, tls=TLS, wait=lambda _: None)
        self.closing.append(upstream.close)
        name = name or self.publisher.name
        objects = DiskObjects(self.storage / name, min_free_bytes=min_free)
        ports = ReplicaPorts(
            upstream=upstream,
            signatures=RsaSignatures([key or self.key]),
            objects=objects,
            databases=CompressedDatabases(objects, max_bytes=catalog_bytes),
            files=DiskFiles(self.storage, name),
            clock=self.clock,
        )
        return Replica(name, ports, Habits(workers=workers, keep_s=KEEP_S, sweep_every_s=DAY_S))

    def objects(self) -> set[str]:
        """Return the paths of all objects that are here."""
        return {str(path.relative_to(self.here)) for path in (self.here / "data").glob("??/*")}

    def served(self, name=".cvmfspublished") -> bytes | None:
        """Return a letter that is served."""
        file = self.here / name
        return file.read_bytes() if file.is_file() else None

    def same(self) -> bool:
        """Return whether what is here is what is published, byte for byte."""
        signed_files = (".cvmfspublished", ".cvmfswhitelist")
        return all(
            self.served(one) == (self.publisher.root / one).read_bytes() for one in signed_files
        ) and all(
            (self.here / path).read_bytes() == (self.publisher.root / path).read_bytes()
            for path in self.publisher.objects()
        )


@pytest.fixture(scope="session")
def keys():
    """Two keys: making them takes time."""
    return new_key(), new_key()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, where nothing waits for a disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="gs-cvmfs-", dir=memory if memory.is_dir() else None
    ) as name:
        yield Path(name)


@pytest.fixture
def new_scene(folder, keys) -> Iterator[Callable[..., ReplicaSetup]]:
    """Makes a scene around a publisher."""
    scenes: list[ReplicaSetup] = []

    def make(**publisher) -> ReplicaSetup:
        place = folder / f"scene-{len(scenes)}"
        made = Publisher(place / "stratum0", master=keys[0], signer=keys[1], **publisher)
        key = made.public_key(place / "master.pub")
        storage = place / "replicas"
        storage.mkdir()
        scenes.append(ReplicaSetup(made, Stratum0(made.root, made.name), storage, key))
        return scenes[-1]

    yield make
    for replica_setup in scenes:
        for close in replica_setup.closing:
            close()
        replica_setup.stratum0.close()


@pytest.fixture
def replica_setup(new_scene) -> ReplicaSetup:
    """A published revision."""
    made = new_scene()
    made.publisher.publish()
    return made


@pytest.fixture
def readers(replica_setup) -> Iterator[Readers]:
    """Makes clients of a published revision; all have one cache."""
    made = Readers(replica_setup, TLS)
    yield made
    for one in made.closing:
        one.close()
