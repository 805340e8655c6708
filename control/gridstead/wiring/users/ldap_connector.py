# SPDX-License-Identifier: Apache-2.0
"""Starts the LDAP connector: `gridstead ldap-connector run`."""

from __future__ import annotations

from gridstead import config
from gridstead.adapters.store.cursor import SqlCursor
from gridstead.adapters.store.database import Database
from gridstead.adapters.users.directory import DirectoryAccess, LdapDirectory
from gridstead.services.chain.follower import Follower
from gridstead.services.users.ldap_connector import LdapConnector
from gridstead.wiring import loop
from gridstead.wiring.chain import open_chain


def run(settings: config.LdapConnectorSettings) -> None:
    """Run the LDAP connector until it is stopped."""
    database = Database(settings.state_url)
    chain = open_chain(settings.chain)
    first_block = chain.first_block
    cursor = SqlCursor(database, "ldap-connector")
    follower = Follower(chain.ledger, cursor, first_block=first_block)
    directory = open_directory(settings.directory, gid=settings.wallet_ids.gid)
    service = LdapConnector(chain.ledger, follower, directory, first_block=first_block)
    loop.run(
        (loop.Tick(name="ldap_connector", function=service.tick, interval_s=settings.tick_s),),
        close=(database.close,),
    )


def open_directory(settings: config.Directory, *, gid: int) -> LdapDirectory:
    """Return the LDAP directory of the settings."""
    access = DirectoryAccess(
        url=settings.url,
        suffix=settings.suffix,
        bind_dn=settings.bind_dn,
        password_file=settings.password_file,
        ca_file=settings.ca_file,
        home_prefix=settings.home_prefix,
        gid=gid,
    )
    return LdapDirectory(access)
