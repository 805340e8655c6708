# SPDX-License-Identifier: Apache-2.0
"""A CVMFS replica's outside world: the server that it copies, the objects it holds, and its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from gridstead.domain.cvmfs.objects import Algorithm, ObjectName
from gridstead.domain.cvmfs.replica import ReplicaState, Swept
from gridstead.domain.cvmfs.signed_files import SignedFile
from gridstead.domain.cvmfs.trust import SignedFiles

T = TypeVar("T")


class Upstream(Protocol):
    """A Stratum 0, over HTTP. Bounded in size and time, whatever it answers.

    Every method may raise RepositoryUnavailable after some attempts.
    """

    def file(self, path: str) -> bytes:
        """Return a small file of the repository.

        Raises:
            RepositoryIncomplete: There is no such file.
            RepositoryUntrusted: It is larger than a letter may be.
        """
        ...

    def fetch(self, name: ObjectName, take: Callable[[Iterable[bytes]], T]) -> T:
        """Give an object's bytes to what takes them, and return what that returns.

        When it raises RepositoryUntrusted, it is given them once more, past caches on the way.

        Raises:
            RepositoryIncomplete: There is no such object.
            RepositoryUntrusted: It is larger than an object may be, or what took it said so twice.
        """
        ...


class SigningCertificate(Protocol):
    """The certificate of who signs a manifest."""

    def fingerprint(self, algorithm: Algorithm) -> str:
        """Return its hash as whitelists have it: bytes in upper case hexadecimal, colons between."""
        ...

    def has_signed(self, signed_file: SignedFile) -> bool:
        """Return whether a letter's signature is of its key."""
        ...


class Signatures(Protocol):
    """Public keys."""

    def is_of_master(self, signed_file: SignedFile) -> bool:
        """Return whether a letter's signature is of one of the master keys."""
        ...

    def certificate(self, pem: bytes) -> SigningCertificate:
        """Return a certificate.

        Raises:
            RepositoryUntrusted: It is none, or its key is of a kind that cannot sign manifests.
        """
        ...


class ObjectStore(Protocol):
    """The objects of one repository, on disk. Any method but ``sweep`` may be called by several
    threads.

    Guarantee: what is here is whole, and was since it came; a crash leaves no part of an object.
    Every method that writes may raise StorageFull, which changes nothing.
    """

    def has(self, name: ObjectName, *, check: bool = False) -> bool:
        """Return whether an object is here; with ``check`` it is read, and removed if it is no
        longer whole.
        """
        ...

    def put(self, name: ObjectName, pieces: Iterable[bytes]) -> int:
        """Store an object and return its size.

        Raises:
            RepositoryUntrusted: The pieces are not what the name says; nothing is stored.
        """
        ...

    def stage(self, name: ObjectName, pieces: Iterable[bytes]) -> int:
        """Store a catalog where ``place`` and the reader of catalogs find it but ``has`` does not."""
        ...

    def is_staged(self, name: ObjectName) -> bool:
        """Return whether a catalog was staged, also by a run that did not end."""
        ...

    def place(self, name: ObjectName) -> None:
        """Make a staged catalog one of the objects; all that was put before is settled first."""
        ...

    def settle(self) -> None:
        """Make all that was put and placed survive a power cut."""
        ...

    def sweep(self, keep: Iterable[ObjectName], *, dry_run: bool) -> Swept:
        """Remove all other objects; none when iterating raises."""
        ...


class Catalog(Protocol):
    """A catalog that is open."""

    def objects(self) -> Iterator[ObjectName]:
        """Return what its files consist of; an object may come twice."""
        ...

    def nested(self) -> tuple[ObjectName, ...]:
        """Return the catalogs below it."""
        ...


class Databases(Protocol):
    """Objects that are databases. Bounded in size and time, whatever they hold.

    Every method may raise RepositoryUntrusted: it is not a database of its kind; and
    RepositoryIncomplete: it is not here, or cannot be read.
    """

    def catalog(self, name: ObjectName) -> AbstractContextManager[Catalog]:
        """Return a catalog, staged or placed."""
        ...

    def tagged(self, name: ObjectName) -> tuple[ObjectName, ...]:
        """Return the root catalogs that a history names."""
        ...


class ReplicaFiles(Protocol):
    """The files of one repository that are not objects, and its lock."""

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from this replica; a killed one does not. What such a one left half
        done is removed.

        Raises:
            ReplicaBusy: Another has it.
        """
        ...

    def load(self) -> ReplicaState:
        """Return what was saved, or the state of a new replica."""
        ...

    def save(self, state: ReplicaState) -> None:
        """Keep the state, in one step, and tell it to clients. Survives a power cut."""
        ...

    def signed_file(self, name: str) -> bytes | None:
        """Return a letter that is served."""
        ...

    def publish(self, signed_files: SignedFiles) -> None:
        """Serve these letters, the manifest last. Survives a power cut."""
        ...

    def announce(self, since: int | None) -> None:
        """Tell clients that a pull runs, since when, Unix seconds; None: that none does."""
        ...
