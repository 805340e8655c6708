# SPDX-License-Identifier: Apache-2.0
"""Settings of every service, one TOML file each, /etc/gridstead/<service>.toml.

Unknown keys are errors. Secrets are paths. A field without a meaningful default has none. docs/reference/settings.md
is generated from these models.
"""

from __future__ import annotations

import difflib
import tomllib
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Annotated, Literal, Self, TypeGuard, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from gridstead.domain.ids import is_address
from gridstead.errors import ConfigError

WEI_PER_CREDIT = 10**18
WEI_DIGITS = 80
SHOWN = 80  # characters of a wrong value

AnySettings = TypeVar("AnySettings", bound="Settings")


def _check_address(value: str) -> str:
    lowered = value.lower()
    if not is_address(lowered):
        raise ValueError("an address is 0x and 40 hexadecimal digits")
    return lowered


def _check_endpoint(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError("an endpoint is host:port")
    return value


def _check_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        good = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise ValueError(f"a URL is http(s)://host:port/path: {error}") from error
    if not good or any(c.isspace() or not c.isprintable() for c in value):
        raise ValueError("a URL is http(s)://host:port/path")
    return value


Address = Annotated[str, AfterValidator(_check_address)]
Url = Annotated[str, AfterValidator(_check_url)]
Endpoint = Annotated[str, AfterValidator(_check_endpoint)]
PositiveInt = Annotated[int, Field(gt=0)]
NaturalInt = Annotated[int, Field(ge=0)]
Credits = Annotated[Decimal, Field(ge=0, decimal_places=18, max_digits=40)]


class Settings(BaseModel):
    """A table of a settings file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Chain(Settings):
    """The chain that holds the contracts."""

    rpc_url: Annotated[
        str,
        AfterValidator(_check_url),
        Field(pattern=r"^https?://", description="JSON-RPC endpoint.", examples=["http://127.0.0.1:8545"]),
    ]
    chain_id: Annotated[
        PositiveInt, Field(description="EIP-155 id; anything else at the endpoint is refused.", examples=[179188])
    ]
    contract: Annotated[Address, Field(description="Address of the MetaScheduler; the others are read from it.")]
    confirmations: Annotated[
        PositiveInt, Field(description="Blocks on top of a block before it counts as final.", examples=[6])
    ]
    first_block: Annotated[
        NaturalInt, Field(description="Block of the contracts' deployment; events are not looked for before it.")
    ] = 0


class Wallet(Settings):
    """The key that signs."""

    keystore_file: Annotated[Path, Field(description="V3 keystore.", examples=["/etc/gridstead/supervisor.wallet"])]
    password_file: Annotated[
        Path, Field(description="File with its password.", examples=["/etc/gridstead/supervisor.password"])
    ]


class Tls(Settings):
    """A server's certificate."""

    certificate_file: Annotated[Path, Field(description="PEM.", examples=["/etc/gridstead/pki/agent.crt"])]
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
        Endpoint, Field(description="host:port; the host stands in its certificate.", examples=["control:8444"])
    ]
    ca_file: Annotated[
        Path, Field(description="PEM of the CA that signed its certificate.", examples=["/etc/gridstead/pki/ca.crt"])
    ]


class Service(Settings):
    """What every service has."""

    tick_s: Annotated[float, Field(gt=0, le=60, description="Seconds from one tick to the next.")] = 0.5
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="Least severe event that is written.")
    ] = "info"


class WalletIds(Settings):
    """Linux ids that belong to wallets."""

    first_uid: Annotated[PositiveInt, Field(description="Lowest.")] = 200_001
    last_uid: Annotated[PositiveInt, Field(description="Highest.")] = 999_999
    gid: Annotated[PositiveInt, Field(description="Primary group of all of them.")] = 100_000


class Directory(Settings):
    """389ds."""

    url: Annotated[str, Field(pattern=r"^ldaps://", description="LDAPS address.", examples=["ldaps://infra"])]
    suffix: Annotated[str, Field(description="Base of the tree.", examples=["dc=gridstead,dc=internal"])]
    bind_dn: Annotated[str, Field(description="Our service account.")]
    password_file: Annotated[Path, Field(description="File with its password.")]
    ca_file: Annotated[Path, Field(description="PEM of the CA that signed the server's certificate.")]
    home_prefix: Annotated[str, Field(description="Homes are <this>/<address>.")] = "/home/ldap-users"


class Storage(Settings):
    """Parents of what is made for users, on the mounted shared storage."""

    homes: Annotated[Path, Field(description="Homes, by address.")] = Path("/home/ldap-users")
    shared_cache: Annotated[Path, Field(description="Caches of one job, by uid.")] = Path("/opt/cache/shared")
    persistent_cache: Annotated[Path, Field(description="Caches of one user, by user-<uid>.")] = Path(
        "/opt/cache/persistent"
    )


class PricesPerMinute(Settings):
    """What a minute costs."""

    gpu_credits: Annotated[Credits, Field(description="Credits per GPU and minute.", examples=["8.5"])]
    cpu_credits: Annotated[Credits, Field(description="Credits per CPU thread and minute.", examples=["0.95"])]
    memory_mb_credits: Annotated[Credits, Field(description="Credits per MB and minute.", examples=["0.00008"])]


class AgentTransport(MutualTls):
    """The way to Slurm through the cluster agent."""

    endpoint: Annotated[Endpoint, Field(description="host:port of the agent.", examples=["controller:6830"])]


class SshTransport(Settings):
    """The way to Slurm through ssh to the login node."""

    endpoint: Annotated[Endpoint, Field(description="host:port of sshd on the login node.", examples=["login:22"])]
    user: Annotated[str, Field(description="Operator account that may sudo the one wrapper.")] = "gridstead-operator"
    key_file: Annotated[Path, Field(description="OpenSSH private key.")]
    known_hosts_file: Annotated[Path, Field(description="Pinned host key; an unknown one is refused.")]


class Slurm(Settings):
    """The cluster."""

    transport: Annotated[Literal["agent", "ssh"], Field(description="Which of the two ways is taken.")] = "agent"
    agent: Annotated[AgentTransport | None, Field(description="Needed for transport agent.")] = None
    ssh: Annotated[SshTransport | None, Field(description="Needed for transport ssh.")] = None

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        if getattr(self, self.transport) is None:
            raise ValueError(f"transport {self.transport} needs a table slurm.{self.transport}")
        return self


class SshKeys(Tls):
    """SshAPI: the supervisor's public key, for the login node."""

    listen: Annotated[Endpoint, Field(description="host:port to listen on.", examples=["0.0.0.0:8446"])]
    public_key_file: Annotated[Path, Field(description="OpenSSH public key.")]


class SupervisorSettings(Service):
    """gridstead supervisor."""

    state_url: Annotated[str, Field(description="SQLAlchemy URL of the journal.")] = (
        "sqlite:////var/lib/gridstead/supervisor/state.db"
    )
    chain: Chain
    wallet: Wallet
    job_definitions: Peer
    slurm: Slurm
    prices_per_minute: PricesPerMinute
    labels: Annotated[dict[str, str], Field(description="What the provider says of itself.")] = {}
    logger_ca_file: Annotated[
        str | None,
        Field(description="Path, on compute nodes, of the CA of the grid's logger; absent: well-known ones."),
    ] = None
    ssh_keys: Annotated[SshKeys | None, Field(description="Absent: SshAPI is not served.")] = None
    claim_limit: Annotated[PositiveInt, Field(le=200, description="Jobs in one claim.")] = 50
    max_attempts: Annotated[PositiveInt, Field(description="Submissions of one job before it is given up as lost.")] = 3
    clock_skew_s: Annotated[NaturalInt, Field(description="Seconds that clocks may differ.")] = 60


class QueueView(Tls):
    """Which jobs wait, and why, for customers."""

    listen: Annotated[Endpoint, Field(description="host:port to listen on.", examples=["0.0.0.0:8447"])]


class MetaSchedulerSettings(Service):
    """gridstead meta-scheduler."""

    state_url: Annotated[str, Field(description="SQLAlchemy URL of its outbox.")] = (
        "sqlite:////var/lib/gridstead/meta-scheduler/state.db"
    )
    chain: Chain
    wallet: Wallet
    queue_view: Annotated[QueueView | None, Field(description="Absent: the queue view is not served.")] = None


class LdapConnectorSettings(Service):
    """gridstead ldap-connector."""

    state_url: Annotated[str, Field(description="SQLAlchemy URL of its cursor.")] = (
        "sqlite:////var/lib/gridstead/ldap-connector/state.db"
    )
    chain: Chain
    directory: Directory
    wallet_ids: WalletIds = WalletIds()


class UserDirectoriesSettings(Service):
    """gridstead user-directories."""

    directory: Directory
    wallet_ids: WalletIds = WalletIds()
    storage: Storage = Storage()


class JobDefinitionsSettings(Service):
    """gridstead job-definitions."""

    state_url: Annotated[str, Field(description="SQLAlchemy URL of the scripts.")] = (
        "sqlite:////var/lib/gridstead/job-definitions/state.db"
    )
    chain: Chain
    graphql_listen: Annotated[Endpoint, Field(description="host:port for GraphQL.")] = "0.0.0.0:8443"
    grpc_listen: Annotated[Endpoint, Field(description="host:port for gRPC.")] = "0.0.0.0:8444"
    tls: Tls
    logger_endpoint: Annotated[
        Endpoint, Field(description="host:port of the logger, as jobs reach it.", examples=["control:8445"])
    ]
    log_token_key_file: Annotated[Path, Field(description="Key shared with the logger; at least 32 bytes.")]
    introspection: Annotated[bool, Field(description="Whether GraphQL clients may read the schema.")] = False
    module_hosts: Annotated[
        tuple[str, ...],
        Field(description="Hosts of git repositories that workflows may use modules of.", examples=[["git.example"]]),
    ] = ()
    module_ca_file: Annotated[
        Path | None, Field(description="Who vouches for these hosts; absent: as the system says.")
    ] = None


class LoggerSettings(Service):
    """gridstead logger."""

    listen: Annotated[Endpoint, Field(description="host:port.")] = "0.0.0.0:8445"
    tls: Tls
    log_token_key_file: Annotated[
        Path, Field(description="Key shared with the Job Definition service; at least 32 bytes.")
    ]
    storage_directory: Annotated[Path, Field(description="Where logs are kept.")] = Path("/var/lib/gridstead/logger")
    storage_key_file: Annotated[
        Path, Field(description="Key that logs are sealed with; at least 32 bytes. Without it they are lost.")
    ]
    max_log_mib: Annotated[PositiveInt, Field(description="How large one log may become, MiB.")] = 256
    max_owner_mib: Annotated[
        PositiveInt, Field(description="How much one owner's logs may take, MiB; the oldest go first.")
    ] = 10240
    retention_days: Annotated[PositiveInt, Field(description="Days that a log is kept after its last line.")] = 30


class AgentSettings(Service):
    """gridstead agent."""

    listen: Annotated[Endpoint, Field(description="host:port for the supervisor.")] = "0.0.0.0:6830"
    tls: MutualTls
    allowed_client: Annotated[str, Field(description="Common name of the one certificate that may call.")] = (
        "supervisor"
    )
    report_listen: Annotated[
        Endpoint | None, Field(description="host:port (UDP) for reports of nodes; absent: none are taken.")
    ] = "0.0.0.0:6831"
    report_sources: Annotated[
        tuple[str, ...], Field(description="Addresses of the nodes; anything else is dropped.")
    ] = ()
    spool_file: Annotated[Path | None, Field(description="Job completion spool; absent: none is read.")] = Path(
        "/var/spool/gridstead/jobcomp.jsonl"
    )
    state_file: Annotated[Path, Field(description="SQLite file of the reports.")] = Path(
        "/var/lib/gridstead/agent/reports.db"
    )
    slurmrestd_socket: Annotated[Path, Field(description="Unix socket of slurmrestd.")] = Path(
        "/run/slurmrestd/slurmrestd.socket"
    )
    partition: Annotated[str, Field(description="Where jobs go.")] = "main"
    account: Annotated[str, Field(description="Parent account of every wallet's association.")] = "grid"
    wallet_ids: WalletIds = WalletIds()
    storage: Storage = Storage()


class ClientSettings(Settings):
    """The command line of a grid user."""

    chain: Chain
    wallet: Wallet
    job_definitions_url: Annotated[
        str,
        AfterValidator(_check_url),
        Field(pattern=r"^https://", description="GraphQL address.", examples=["https://control:8443/graphql"]),
    ]
    logger: Peer
    queue_url: Annotated[Url | None, Field(description="Address of the meta-scheduler's queue view.")] = None
    ca_file: Annotated[Path | None, Field(description="PEM of a CA to trust beside the system's.")] = None


SERVICES: dict[str, type[Service]] = {
    "agent": AgentSettings,
    "job-definitions": JobDefinitionsSettings,
    "ldap-connector": LdapConnectorSettings,
    "logger": LoggerSettings,
    "meta-scheduler": MetaSchedulerSettings,
    "supervisor": SupervisorSettings,
    "user-directories": UserDirectoriesSettings,
}


def to_wei(amount: Decimal) -> int:
    """Return credits as wei; the settings allow at most 18 decimals, so nothing is rounded."""
    with localcontext(prec=WEI_DIGITS):
        return int(amount * WEI_PER_CREDIT)


def load(model: type[AnySettings], path: Path) -> AnySettings:
    """Return the settings of a file.

    Raises:
        ConfigError: The file cannot be read or breaks a rule; every broken field is named at once.
    """
    try:
        return model.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise ConfigError(f"cannot read {path}", detail=str(error)) from error
    except ValidationError as error:
        problems = [_problem(model, one) for one in error.errors()]
        hint = "docs/reference/settings.md lists every key."
        raise ConfigError(f"invalid settings in {path}", detail="; ".join(problems), hint=hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML", detail=str(error)) from error


def _problem(model: type[Settings], error: ErrorDetails) -> str:
    place = ".".join(map(str, error["loc"]))
    if error["type"] == "missing":
        return f"{place}: missing"
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(error["loc"][-1]), _keys(model, error["loc"][:-1]), n=1)
        return f"{place}: unknown key" + (f", did you mean {near[0]}?" if near else "")
    return f"{place}: {error['msg'].removeprefix('Value error, ')}, found {repr(error['input'])[:SHOWN]}"


def _keys(model: type[Settings], table: tuple[int | str, ...]) -> list[str]:
    """Return the keys that a table of the settings may have."""
    for name in table:
        field = model.model_fields.get(str(name))
        inner = [one for one in (field.annotation, *get_args(field.annotation)) if _is_table(one)] if field else []
        if not inner:
            return []
        model = inner[0]
    return list(model.model_fields)


def _is_table(annotation: object) -> TypeGuard[type[Settings]]:
    return isinstance(annotation, type) and issubclass(annotation, Settings)
