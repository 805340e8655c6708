# SPDX-License-Identifier: Apache-2.0
"""The signed files that a client has stored. The client reads them while no server answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from gridstead_cvmfs.adapters.files import DiskFiles
from gridstead_cvmfs.adapters.objects import DiskObjects, blocks
from gridstead_cvmfs.domain.objects import ObjectName
from gridstead_cvmfs.errors import RepositoryIncomplete

T = TypeVar("T")


class CachedSignedFiles:
    """Implements port ``Upstream``.

    Args:
        files: The stored signed files.
        objects: The stored certificates.
    """

    def __init__(self, files: DiskFiles, objects: DiskObjects) -> None:
        self._files = files
        self._objects = objects

    def fetch_file(self, path: str) -> bytes:
        """Return a stored signed file."""
        signed_file = self._files.signed_file(path)
        if signed_file is None:
            raise RepositoryIncomplete(f"{path} is not stored")
        return signed_file

    def fetch_object(self, name: ObjectName, consume: Callable[[Iterable[bytes]], T]) -> T:
        """Pass the bytes of a stored certificate to ``consume``."""
        if not self._objects.has(name):
            raise RepositoryIncomplete(f"object {name} is not stored")
        return consume(blocks(self._objects.content(name)))
