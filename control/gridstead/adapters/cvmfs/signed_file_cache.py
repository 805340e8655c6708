# SPDX-License-Identifier: Apache-2.0
"""What a client keeps of a repository's letters, shown as a server shows them, for when none
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from gridstead.adapters.cvmfs.files import DiskFiles
from gridstead.adapters.cvmfs.objects import DiskObjects, blocks
from gridstead.domain.cvmfs.objects import ObjectName
from gridstead.errors import RepositoryIncomplete

T = TypeVar("T")


class CachedSignedFiles:
    """Implements port ``Upstream``.

    Args:
        files: Where letters are kept.
        objects: Where certificates are kept.
    """

    def __init__(self, files: DiskFiles, objects: DiskObjects) -> None:
        self._files = files
        self._objects = objects

    def file(self, path: str) -> bytes:
        """Return a letter."""
        signed_file = self._files.signed_file(path)
        if signed_file is None:
            raise RepositoryIncomplete(f"{path} is not kept here")
        return signed_file

    def fetch(self, name: ObjectName, take: Callable[[Iterable[bytes]], T]) -> T:
        """Give a certificate's bytes to what takes them."""
        if not self._objects.has(name):
            raise RepositoryIncomplete(f"object {name} is not kept here")
        return take(blocks(self._objects.content(name)))
