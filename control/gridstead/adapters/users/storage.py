# SPDX-License-Identifier: Apache-2.0
"""The names of the users' directories on the shared storage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gridstead.domain.supervisor.submission import GridUser


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStorage:
    """The parents of the users' directories.

    Attributes:
        homes: The parent of the homes. The name of a home is the user name.
        shared_cache: The parent of the shared caches. The name of a cache is the uid.
        persistent_cache: The parent of the persistent caches. Their names are ``user-<uid>``.
    """

    homes: Path = Path("/home/ldap-users")
    shared_cache: Path = Path("/opt/cache/shared")
    persistent_cache: Path = Path("/opt/cache/persistent")

    @property
    def parents(self) -> tuple[Path, ...]:
        """The parent directories."""
        return (self.homes, self.shared_cache, self.persistent_cache)

    def directories_of(self, user: GridUser) -> tuple[Path, ...]:
        """Return the directories that a user must own."""
        return (
            self.homes / user.address,
            self.shared_cache / str(user.uid),
            self.persistent_cache / f"user-{user.uid}",
        )
