# SPDX-License-Identifier: Apache-2.0
"""Reads and adds wallet users in 389 Directory Server over LDAPS.

The server assigns the uids. The service account may only add wallet users.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ldap3
from ldap3.core.exceptions import LDAPException

from gridstead.domain.supervisor.submission import GridUser
from gridstead.errors import ConfigError, DirectoryUnavailable, NotAllowed

OBJECT_CLASSES = ("top", "nsPerson", "nsAccount", "nsOrgPerson", "posixAccount")
PAGE_SIZE = 500
ENTRY_ALREADY_EXISTS = 68
TIMEOUT_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAccess:
    """The address of the directory, and the service account with which to use the directory.

    Attributes:
        url: ``ldaps://host[:port]``.
        suffix: The base of the tree. Users are under ``ou=people``.
        bind_dn: DN of the service account.
        password_file: File with the password of the service account.
        ca_file: PEM file of the CA that signed the server's certificate.
        home_prefix: The parent directory of the home directories.
        gid: The primary group of all wallet users.
    """

    url: str
    suffix: str
    bind_dn: str
    password_file: Path
    ca_file: Path
    home_prefix: str
    gid: int


class LdapDirectory:
    """Implements port ``Directory``. The first call that needs a connection opens it."""

    def __init__(self, access: DirectoryAccess) -> None:
        self._access = access
        self._people = f"ou=people,{access.suffix}"
        self._connection: Any = None

    def ensure_users(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Create the users that do not exist, and return the addresses of the created users."""
        return tuple(address for address in addresses if self._add_user(address))

    def users(self) -> tuple[GridUser, ...]:
        """Return all wallet users, sorted by address."""
        attributes = ["uid", "uidNumber", "gidNumber"]
        try:
            entries = self._bound_connection().extend.standard.paged_search(
                self._people,
                "(&(objectClass=posixAccount)(uid=0x*))",
                attributes=attributes,
                paged_size=PAGE_SIZE,
                generator=False,
            )
        except LDAPException as error:
            raise self._unavailable(error) from error
        users = [_to_user(entry["attributes"]) for entry in entries if "attributes" in entry]
        return tuple(sorted(users, key=lambda user: user.address))

    def _add_user(self, address: str) -> bool:
        """Create a user. Return False if the user exists."""
        access = self._access
        attributes = {
            "cn": address,
            "displayName": address,
            "gidNumber": access.gid,
            "homeDirectory": f"{access.home_prefix}/{address}",
            "loginShell": "/bin/bash",
        }
        try:
            connection = self._bound_connection()
            connection.add(f"uid={address},{self._people}", list(OBJECT_CLASSES), attributes)
        except LDAPException as error:
            raise self._unavailable(error) from error
        response = connection.result
        result_code = response["result"]
        if result_code == ENTRY_ALREADY_EXISTS:
            return False
        if result_code != 0:
            detail = f"{response['description']}: {response['message']}"
            raise NotAllowed(f"could not create user {address}", detail=detail)
        return True

    def _bound_connection(self) -> Any:  # noqa: ANN401 - ldap3 has no types
        """Return a connection that is bound to the service account."""
        if self._connection is not None and self._connection.bound:
            return self._connection
        access = self._access
        tls = ldap3.Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=str(access.ca_file))
        server = ldap3.Server(access.url, tls=tls, connect_timeout=TIMEOUT_S, get_info=ldap3.NONE)
        try:
            password = access.password_file.read_text().strip()
        except OSError as error:
            raise ConfigError(f"cannot read {access.password_file}", detail=str(error)) from error
        self._connection = ldap3.Connection(
            server,
            access.bind_dn,
            password,
            auto_bind=True,
            receive_timeout=TIMEOUT_S,
            raise_exceptions=False,
        )
        return self._connection

    def _unavailable(self, error: LDAPException) -> DirectoryUnavailable:
        """Return the error for a failed request. The next request opens a new connection."""
        self._connection = None
        return DirectoryUnavailable(f"could not reach {self._access.url}", detail=str(error))


def _to_user(attributes: dict[str, Any]) -> GridUser:
    def first_value(name: str) -> str:
        values = attributes[name]
        if isinstance(values, list):
            return str(values[0])
        return str(values)

    return GridUser(
        address=first_value("uid"),
        uid=int(first_value("uidNumber")),
        gid=int(first_value("gidNumber")),
    )
