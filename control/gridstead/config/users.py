# SPDX-License-Identifier: Apache-2.0
"""The files of the two services that make users: the LDAP connector, and the user directories."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridstead.config.tables import Chain, Directory, Storage, TickingService, WalletIds


class LdapConnectorSettings(TickingService):
    """gridstead ldap-connector."""

    state_url: Annotated[str, Field(description="SQLAlchemy URL of its cursor.")] = (
        "sqlite:////var/lib/gridstead/ldap-connector/state.db"
    )
    chain: Chain
    directory: Directory
    wallet_ids: WalletIds = WalletIds()


class UserDirectoriesSettings(TickingService):
    """gridstead user-directories."""

    directory: Directory
    wallet_ids: WalletIds = WalletIds()
    storage: Storage = Storage()
