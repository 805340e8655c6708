# SPDX-License-Identifier: Apache-2.0
"""Ports of a CVMFS replica: the upstream server, the stored objects, and the other files.

The client of a mount uses these ports too, except ``Databases``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from gridstead_cvmfs.domain.objects import HashAlgorithm, ObjectName
from gridstead_cvmfs.domain.replica import ReplicaState, SweepResult
from gridstead_cvmfs.domain.signed_files import SignedFile
from gridstead_cvmfs.domain.trust import SignedFiles

T = TypeVar("T")


class Upstream(Protocol):
    """The source of a repository: one or several servers, or a client's stored signed files.

    Every answer is limited in size and time. Every method may raise RepositoryUnavailable if the
    source does not answer.
    """

    def fetch_file(self, path: str) -> bytes:
        """Return a small file of the repository.

        Raises:
            RepositoryIncomplete: If the file does not exist.
            RepositoryUntrusted: If the file is larger than the limit for signed files.
        """
        ...

    def fetch_object(self, name: ObjectName, consume: Callable[[Iterable[bytes]], T]) -> T:
        """Pass the bytes of an object to ``consume``, and return the result of ``consume``.

        If ``consume`` raises RepositoryUntrusted, the object is fetched once more, without caches.

        Raises:
            RepositoryIncomplete: If the object does not exist.
            RepositoryUntrusted: If the object is larger than the limit, or ``consume`` rejects it
                twice.
        """
        ...


class SigningCertificate(Protocol):
    """The certificate of the signer of a manifest."""

    def fingerprint(self, algorithm: HashAlgorithm) -> str:
        """Return the fingerprint as whitelists contain it: ``AB:CD:…`` in upper case."""
        ...

    def has_signed(self, signed_file: SignedFile) -> bool:
        """Return whether a file is signed with the key of the certificate."""
        ...


class Signatures(Protocol):
    """Checks signatures with the master keys of a repository."""

    def is_signed_by_master(self, signed_file: SignedFile) -> bool:
        """Return whether a file is signed with one of the master keys."""
        ...

    def certificate(self, pem: bytes) -> SigningCertificate:
        """Return a certificate.

        Raises:
            RepositoryUntrusted: If it is not a certificate, or its key type cannot sign manifests.
        """
        ...


class ObjectStore(Protocol):
    """The objects of one repository on disk.

    Several threads may call any method except ``sweep``.

    Guarantee: a stored object is complete, also after a crash.
    Every method that writes may raise StorageFull. Then nothing has changed.
    """

    def has(self, name: ObjectName, *, check: bool = False) -> bool:
        """Return whether an object is stored.

        Args:
            name: The name of the object.
            check: Whether to read the object, and remove it if it is damaged.
        """
        ...

    def put(self, name: ObjectName, pieces: Iterable[bytes]) -> int:
        """Store an object and return its size.

        Raises:
            RepositoryUntrusted: If the pieces do not match the name. Then nothing is stored.
        """
        ...

    def stage(self, name: ObjectName, pieces: Iterable[bytes]) -> int:
        """Store a catalog temporarily, for ``store_staged`` and ``Databases``.

        Returns:
            The size of the stored catalog. Unit: bytes.

        Raises:
            RepositoryUntrusted: If the pieces do not match the name. Then nothing is stored.
        """
        ...

    def is_staged(self, name: ObjectName) -> bool:
        """Return whether a catalog is staged. An interrupted run may have staged it."""
        ...

    def store_staged(self, name: ObjectName) -> None:
        """Make a staged catalog a stored object, after a sync of all earlier writes."""
        ...

    def sync(self) -> None:
        """Write all stored objects to the disk, so that they survive a power failure."""
        ...

    def sweep(self, keep: Iterable[ObjectName], *, dry_run: bool) -> SweepResult:
        """Remove all objects except ``keep``. If iterating over ``keep`` fails, remove nothing."""
        ...


class Catalog(Protocol):
    """An open catalog."""

    def objects(self) -> Iterator[ObjectName]:
        """Return the objects of the files in the catalog. An object may occur several times."""
        ...

    def nested(self) -> tuple[ObjectName, ...]:
        """Return the nested catalogs, one level down."""
        ...


class Databases(Protocol):
    """Objects that are databases. Every query is limited in size and time.

    Every method may raise RepositoryUntrusted if the object is not a database of the expected
    type, and RepositoryIncomplete if the object is missing or cannot be read.
    """

    def catalog(self, name: ObjectName) -> AbstractContextManager[Catalog]:
        """Open a catalog, staged or stored."""
        ...

    def tagged_catalogs(self, name: ObjectName) -> tuple[ObjectName, ...]:
        """Return the root catalogs of the tags in a history."""
        ...


class ReplicaFiles(Protocol):
    """The files of one repository that are not objects, and its lock."""

    def lock(self) -> AbstractContextManager[None]:
        """Lock the replica against other processes, and remove partial files of a killed process.

        The lock of a killed process is released.

        Raises:
            ReplicaBusy: If another process holds the lock.
        """
        ...

    def load(self) -> ReplicaState:
        """Return the saved state, or the initial state of a new replica."""
        ...

    def save(self, state: ReplicaState) -> None:
        """Save the state and the status files atomically. The files survive a power failure."""
        ...

    def signed_file(self, name: str) -> bytes | None:
        """Return a stored signed file. None if it does not exist."""
        ...

    def publish(self, signed_files: SignedFiles) -> None:
        """Store the signed files, the manifest last. The files survive a power failure."""
        ...

    def announce(self, started_at: int | None) -> None:
        """Publish the start of the running pull as Unix seconds. None means that no pull runs."""
        ...
