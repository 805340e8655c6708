# SPDX-License-Identifier: Apache-2.0
"""The model of each service's settings file."""

from __future__ import annotations

from gridstead.config.benchmarks import BenchmarksSettings
from gridstead.config.definitions import JobDefinitionsSettings
from gridstead.config.logs import LoggerSettings
from gridstead.config.matching import MetaSchedulerSettings
from gridstead.config.slurm import AgentSettings
from gridstead.config.supervisor import SupervisorSettings
from gridstead.config.tables import Service
from gridstead.config.users import LdapConnectorSettings, UserDirectoriesSettings

SERVICE_SETTINGS: dict[str, type[Service]] = {
    "agent": AgentSettings,
    "benchmarks": BenchmarksSettings,
    "job-definitions": JobDefinitionsSettings,
    "ldap-connector": LdapConnectorSettings,
    "logger": LoggerSettings,
    "meta-scheduler": MetaSchedulerSettings,
    "supervisor": SupervisorSettings,
    "user-directories": UserDirectoriesSettings,
}
