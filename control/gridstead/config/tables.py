# SPDX-License-Identifier: Apache-2.0
"""Tables that several services have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gridstead.config.values import Address, Endpoint, NaturalInt, PositiveInt, Settings, Url


class Chain(Settings):
    """The chain that holds the contracts."""

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
            description="EIP-155 id; anything else at the endpoint is refused.", examples=[179188]
        ),
    ]
    contract: Annotated[
        Address, Field(description="Address of the MetaScheduler; the others are read from it.")
    ]
    confirmations: Annotated[
        PositiveInt,
        Field(
            le=64,  # nodes that prune keep the state of 128 blocks, and what is final is read there
            description="Blocks on top of a block before it counts as final; at most 64.",
            examples=[6],
        ),
    ]
    first_block: Annotated[
        NaturalInt,
        Field(
            description="Block of the contracts' deployment; events are not looked for before it."
        ),
    ] = 0


class Wallet(Settings):
    """The key that signs."""

    keystore_file: Annotated[
        Path, Field(description="V3 keystore.", examples=["/etc/gridstead/supervisor.wallet"])
    ]
    password_file: Annotated[
        Path,
        Field(
            description="File with its password.", examples=["/etc/gridstead/supervisor.password"]
        ),
    ]


class Tls(Settings):
    """A server's certificate."""

    certificate_file: Annotated[
        Path, Field(description="PEM.", examples=["/etc/gridstead/pki/agent.crt"])
    ]
    key_file: Annotated[Path, Field(description="PEM.", examples=["/etc/gridstead/pki/agent.key"])]


class MutualTls(Tls):
    """A certificate on both sides."""

    ca_file: Annotated[
        Path,
        Field(
            description="PEM of the CA that the peer's certificate must come from.",
            examples=["/etc/gridstead/pki/ca.crt"],
        ),
    ]


class Peer(Settings):
    """A TLS server of ours."""

    endpoint: Annotated[
        Endpoint,
        Field(
            description="host:port; the host stands in its certificate.", examples=["control:8444"]
        ),
    ]
    ca_file: Annotated[
        Path,
        Field(
            description="PEM of the CA that signed its certificate.",
            examples=["/etc/gridstead/pki/ca.crt"],
        ),
    ]


class Service(Settings):
    """What every service has."""

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="Least severe event that is written."),
    ] = "info"


class TickingService(Service):
    """What a service has that looks around all the time."""

    tick_s: Annotated[
        float, Field(gt=0, le=60, description="Seconds from one tick to the next.")
    ] = 0.5


class WalletIds(Settings):
    """Linux ids that belong to wallets."""

    first_uid: Annotated[PositiveInt, Field(description="Lowest.")] = 200_001
    last_uid: Annotated[PositiveInt, Field(description="Highest.")] = 999_999
    gid: Annotated[PositiveInt, Field(description="Primary group of all of them.")] = 100_000


class Directory(Settings):
    """389ds."""

    url: Annotated[
        str, Field(pattern=r"^ldaps://", description="LDAPS address.", examples=["ldaps://infra"])
    ]
    suffix: Annotated[
        str, Field(description="Base of the tree.", examples=["dc=gridstead,dc=internal"])
    ]
    bind_dn: Annotated[str, Field(description="Our service account.")]
    password_file: Annotated[Path, Field(description="File with its password.")]
    ca_file: Annotated[
        Path, Field(description="PEM of the CA that signed the server's certificate.")
    ]
    home_prefix: Annotated[str, Field(description="Homes are <this>/<address>.")] = (
        "/home/ldap-users"
    )


class Storage(Settings):
    """Parents of what is made for users, on the mounted shared storage."""

    homes: Annotated[Path, Field(description="Homes, by address.")] = Path("/home/ldap-users")
    shared_cache: Annotated[Path, Field(description="Caches of one job, by uid.")] = Path(
        "/opt/cache/shared"
    )
    persistent_cache: Annotated[Path, Field(description="Caches of one user, by user-<uid>.")] = (
        Path("/opt/cache/persistent")
    )
    quota_gib: Annotated[
        PositiveInt | None,
        Field(
            description="Most that each directory of a user may hold, in GiB; without it, no bound."
        ),
    ] = None
    quota_command: Annotated[
        tuple[str, ...],
        Field(
            description="Program of the file system that bounds {directory} to {bytes}, and its arguments.",
            examples=[["mfssetquota", "-S", "{bytes}", "{directory}"]],
        ),
    ] = ()

    @model_validator(mode="after")
    def _check_quota(self) -> Self:
        missing = [
            name
            for name in ("{directory}", "{bytes}")
            if not any(name in word for word in self.quota_command[1:])
        ]
        if self.quota_gib is not None and missing:
            raise ValueError(
                f"with quota_gib, quota_command must be a program with arguments {' and '.join(missing)}"
            )
        return self
