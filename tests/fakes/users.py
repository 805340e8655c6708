# SPDX-License-Identifier: Apache-2.0
"""Fakes of the directory and of the storage for user directories, in memory."""

from dataclasses import dataclass, field

from gridstead.domain.supervisor.submission import GridUser
from gridstead.errors import ConfigError


@dataclass
class FakeDirectory:
    """Implements the port Directory in memory."""

    accounts: dict[str, GridUser] = field(default_factory=dict)

    def ensure_users(self, addresses):
        created = tuple(address for address in addresses if address not in self.accounts)
        for address in created:
            uid = 200_001 + len(self.accounts)
            self.accounts[address] = GridUser(address=address, uid=uid, gid=100_000)
        return created

    def users(self):
        return tuple(self.accounts.values())


@dataclass
class FakeStorage:
    """Implements the port UserDirectories. It fails for the addresses in ``failing``."""

    created: list[GridUser] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)

    def ensure(self, user):
        self.calls.append(user.address)
        if user.address in self.failing:
            raise ConfigError(f"cannot create a home for {user.address}")
        self.created.append(user)
        return True
