# SPDX-License-Identifier: Apache-2.0
"""The settings of the services. Each service has one TOML file, /etc/gridstead/<service>.toml.

Unknown keys are errors. A setting for a secret is the path of a file with the secret. A setting
without a meaningful default is required. docs/reference/settings.md is generated from these models.

Each module has the models of one file. tables.py has the tables that several files contain, and
values.py has the types of values. Other packages import all names from this package.
Exceptions are scenario_file.py and simulation.py, which only `gridstead simulate` needs.
"""

from __future__ import annotations

from gridstead.config.benchmarks import BenchmarksSettings, MeasuredDirectories
from gridstead.config.client import ClientSettings
from gridstead.config.definitions import DefinitionLimits, JobDefinitionsSettings
from gridstead.config.logs import LoggerSettings
from gridstead.config.matching import MetaSchedulerSettings, QueueView
from gridstead.config.reading import load, redact_url, setting_diagnostics, setting_key
from gridstead.config.services import SERVICE_SETTINGS
from gridstead.config.slurm import AgentSettings
from gridstead.config.supervisor import (
    AgentTransport,
    PricesPerMinute,
    Slurm,
    SshKeys,
    SshTransport,
    SupervisorSettings,
)
from gridstead.config.tables import (
    Chain,
    Directory,
    MutualTls,
    Peer,
    Service,
    Storage,
    TickingService,
    Tls,
    Wallet,
    WalletIds,
)
from gridstead.config.users import LdapConnectorSettings, UserDirectoriesSettings
from gridstead.config.values import (
    Address,
    Credits,
    Endpoint,
    NaturalInt,
    Network,
    PositiveInt,
    Settings,
    Url,
    to_wei,
)

__all__ = [
    "SERVICE_SETTINGS",
    "Address",
    "AgentSettings",
    "AgentTransport",
    "BenchmarksSettings",
    "Chain",
    "ClientSettings",
    "Credits",
    "DefinitionLimits",
    "Directory",
    "Endpoint",
    "JobDefinitionsSettings",
    "LdapConnectorSettings",
    "LoggerSettings",
    "MeasuredDirectories",
    "MetaSchedulerSettings",
    "MutualTls",
    "NaturalInt",
    "Network",
    "Peer",
    "PositiveInt",
    "PricesPerMinute",
    "QueueView",
    "Service",
    "Settings",
    "Slurm",
    "SshKeys",
    "SshTransport",
    "Storage",
    "SupervisorSettings",
    "TickingService",
    "Tls",
    "Url",
    "UserDirectoriesSettings",
    "Wallet",
    "WalletIds",
    "load",
    "redact_url",
    "setting_diagnostics",
    "setting_key",
    "to_wei",
]
