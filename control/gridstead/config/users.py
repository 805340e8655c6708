# SPDX-License-Identifier: Apache-2.0
"""The settings of the LDAP connector and of the service that creates user directories."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridstead.config.tables import Chain, Directory, Storage, TickingService, WalletIds


class LdapConnectorSettings(TickingService):
    """The settings of gridstead ldap-connector."""

    state_url: Annotated[
        str,
        Field(
            description=(
                "SQLAlchemy URL of the database that stores the last blocks that the connector has"
                " read."
            )
        ),
    ] = "sqlite:////var/lib/gridstead/ldap-connector/state.db"
    chain: Chain
    directory: Directory
    wallet_ids: WalletIds = WalletIds()


class UserDirectoriesSettings(TickingService):
    """The settings of gridstead user-directories."""

    directory: Annotated[
        Directory,
        Field(
            examples=[
                {
                    "bind_dn": "uid=sssd,ou=services,dc=gridstead,dc=internal",
                    "password_file": "/etc/gridstead/secrets/directory-sssd.password",
                }
            ]
        ),
    ]
    wallet_ids: WalletIds = WalletIds()
    storage: Storage = Storage()
