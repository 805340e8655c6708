# SPDX-License-Identifier: Apache-2.0
"""The tables that several settings files contain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gridstead.config.values import Address, Endpoint, NaturalInt, PositiveInt, Settings, Url


class Chain(Settings):
    """The chain with the contracts."""

    rpc_url: Annotated[
        Url,
        Field(
            pattern=r"^https?://",
            description="JSON-RPC endpoint.",
            examples=["http://127.0.0.1:8545"],
        ),
    ]
    chain_id: Annotated[
        PositiveInt,
        Field(
            description="EIP-155 chain id. An endpoint of another chain is refused.",
            examples=[179188],
        ),
    ]
    contract: Annotated[
        Address,
        Field(
            description="Address of MetaScheduler, which returns the addresses of the other "
            "contracts.",
            examples=["0x1234567890abcdef1234567890abcdef12345678"],
        ),
    ]
    confirmations: Annotated[
        PositiveInt,
        Field(
            # A node that prunes retains the state of the last 128 blocks. The state of the newest
            # final block must be readable.
            le=64,
            description="Number of blocks after which a block is final.",
            examples=[6],
        ),
    ]
    first_block: Annotated[
        NaturalInt,
        Field(
            description="Block of the contracts' deployment. Events are searched from this block."
        ),
    ] = 0


class Wallet(Settings):
    """The wallet that signs transactions."""

    keystore_file: Annotated[
        Path,
        Field(
            description="Keystore file (V3).", examples=["/etc/gridstead/wallets/{service}.json"]
        ),
    ]
    password_file: Annotated[
        Path,
        Field(
            description="File with the password of the keystore.",
            examples=["/etc/gridstead/secrets/{service}.password"],
        ),
    ]


class Tls(Settings):
    """The certificate of a server."""

    certificate_file: Annotated[
        Path, Field(description="Certificate, PEM.", examples=["/etc/gridstead/pki/{service}.crt"])
    ]
    key_file: Annotated[
        Path, Field(description="Private key, PEM.", examples=["/etc/gridstead/pki/{service}.key"])
    ]


class MutualTls(Tls):
    """The certificate of one side of a mutual TLS connection, and the CA of the other side."""

    ca_file: Annotated[
        Path,
        Field(
            description="CA that must have signed the peer's certificate, PEM.",
            examples=["/etc/gridstead/pki/ca.crt"],
        ),
    ]


class Peer(Settings):
    """A TLS server of the grid."""

    endpoint: Annotated[
        Endpoint,
        Field(
            description="Address of the server. Its certificate must be valid for this host.",
            examples=["control:8444"],
        ),
    ]
    ca_file: Annotated[
        Path,
        Field(
            description="CA that signed the server's certificate, PEM.",
            examples=["/etc/gridstead/pki/ca.crt"],
        ),
    ]


class Service(Settings):
    """The settings that every service has."""

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="Minimum severity of the events that are logged."),
    ] = "info"


class TickingService(Service):
    """The settings of a service that works in ticks."""

    tick_s: Annotated[
        float, Field(gt=0, le=60, description="Interval between two ticks (passes of the loop).")
    ] = 0.5


class WalletIds(Settings):
    """The Linux ids of wallet users."""

    first_uid: Annotated[PositiveInt, Field(description="Lowest user id.")] = 200_001
    last_uid: Annotated[PositiveInt, Field(description="Highest user id.")] = 999_999
    gid: Annotated[PositiveInt, Field(description="Primary group id of all wallet users.")] = (
        100_000
    )


class Directory(Settings):
    """The LDAP directory (389ds)."""

    url: Annotated[
        str,
        Field(
            pattern=r"^ldaps://",
            description="LDAPS URL of the directory.",
            examples=["ldaps://infra"],
        ),
    ]
    suffix: Annotated[
        str, Field(description="Suffix of the directory.", examples=["dc=gridstead,dc=internal"])
    ]
    bind_dn: Annotated[
        str,
        Field(
            description="Distinguished name of the service account.",
            examples=["uid=connector,ou=services,dc=gridstead,dc=internal"],
        ),
    ]
    password_file: Annotated[
        Path,
        Field(
            description="File with the password of the service account.",
            examples=["/etc/gridstead/secrets/directory-connector.password"],
        ),
    ]
    ca_file: Annotated[
        Path,
        Field(
            description="CA that signed the server's certificate, PEM.",
            examples=["/etc/gridstead/pki/ca.crt"],
        ),
    ]
    home_prefix: Annotated[
        str, Field(description="Parent directory of the homes. A home is `<prefix>/<address>`.")
    ] = "/home/ldap-users"


class Storage(Settings):
    """The parent directories of users' directories, on the mounted shared storage."""

    homes: Annotated[
        Path, Field(description="Parent of the home directories, whose names are the addresses.")
    ] = Path("/home/ldap-users")
    shared_cache: Annotated[
        Path,
        Field(description="Parent of the cache directories of jobs, whose names are the uids."),
    ] = Path("/opt/cache/shared")
    persistent_cache: Annotated[
        Path, Field(description="Parent of the cache directories of users, as `user-<uid>`.")
    ] = Path("/opt/cache/persistent")
    quota_gib: Annotated[
        PositiveInt | None,
        Field(description="Quota of each directory of a user.", examples=[100]),
    ] = None
    quota_command: Annotated[
        tuple[str, ...],
        Field(
            description="Command that sets the quota of `{directory}` to `{bytes}`. Required with "
            "`quota_gib`.",
            examples=[["mfssetquota", "-S", "{bytes}", "{directory}"]],
        ),
    ] = ()

    @model_validator(mode="after")
    def _check_quota(self) -> Self:
        arguments = " ".join(self.quota_command[1:])
        missing_arguments = [name for name in ("{directory}", "{bytes}") if name not in arguments]
        if self.quota_gib is not None and missing_arguments:
            names = " and ".join(missing_arguments)
            raise ValueError(f"quota_gib requires a quota_command with the arguments {names}")
        return self
