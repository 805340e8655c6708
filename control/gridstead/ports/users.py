# SPDX-License-Identifier: Apache-2.0
"""Ports of the wallet users of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gridstead.domain.supervisor.submission import GridUser


class Directory(Protocol):
    """The wallet users in the LDAP directory."""

    def ensure_users(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Create the users that do not exist, and return their addresses. Idempotent."""
        ...

    def users(self) -> tuple[GridUser, ...]:
        """Return all wallet users."""
        ...


class UserDirectories(Protocol):
    """The home and cache directories of wallet users on the shared storage."""

    def ensure(self, user: GridUser) -> bool:
        """Create the missing directories of a user, owned by the user, with mode 0700.

        Returns:
            Whether a directory was created.
        """
        ...
