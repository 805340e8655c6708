# SPDX-License-Identifier: Apache-2.0
"""The wallet users of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gridstead.domain.submission import GridUser


class Directory(Protocol):
    """LDAP: the wallet users."""

    def ensure_users(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Make the users that do not exist and return those that were made. Safe to repeat."""
        ...

    def users(self) -> tuple[GridUser, ...]:
        """Return all wallet users."""
        ...


class UserDirectories(Protocol):
    """Home and cache directories on the shared storage."""

    def ensure(self, user: GridUser) -> bool:
        """Make the user's directories, owned by it, mode 0700, and return whether anything was
        made.
        """
        ...
