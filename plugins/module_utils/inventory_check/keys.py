# SPDX-License-Identifier: Apache-2.0
"""The parameter names of slurm.conf, its lines and slurmdbd.conf in Slurm 24.11.

Names are not case-sensitive. A daemon that reads another name exits, and slurmctld and slurmdbd
have no option to test a file. Source: the tables of options in Debian's libslurmfull.so and
slurmdbd, 24.11.5.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .diagnostic import Diagnostic
from .inventory import Inventory

NODE = (
    "NodeHostname", "NodeAddr", "BcastAddr", "Boards", "CoreSpecCount", "CoresPerSocket", "CpuBind",
    "CPUs", "CpuSpecList", "Features", "Gres", "MemSpecLimit", "Port", "Procs", "RealMemory",
    "Reason", "Sockets", "SocketsPerBoard", "State", "ThreadsPerCore", "TmpDisk", "TopologyAddr",
    "Weight",
)  # fmt: skip
PARTITION = (
    "AllocNodes", "AllowAccounts", "AllowGroups", "AllowQos", "Alternate", "CpuBind", "Default",
    "DefaultTime", "DefCpuPerGPU", "DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode", "DenyAccounts",
    "DenyQos", "DisableRootJobs", "ExclusiveUser", "ExclusiveTopo", "GraceTime", "Hidden",
    "JobDefaults", "LLN", "MaxCPUsPerNode", "MaxCPUsPerSocket", "MaxMemPerCPU", "MaxMemPerNode",
    "MaxNodes", "MaxTime", "MinNodes", "Nodes", "OverSubscribe", "OverTimeLimit", "PowerDownOnIdle",
    "PreemptMode", "PriorityJobFactor", "PriorityTier", "QOS", "ReqResv", "ResumeTimeout",
    "RootOnly", "SelectTypeParameters", "State", "SuspendTime", "SuspendTimeout", "Topology",
    "TRESBillingWeights",
)  # fmt: skip
SLURM = (
    "AccountingStorageBackupHost", "AccountingStorageEnforce", "AccountingStorageExternalHost",
    "AccountingStorageHost", "AccountingStorageLoc", "AccountingStorageParameters",
    "AccountingStoragePass", "AccountingStoragePort", "AccountingStorageTRES",
    "AccountingStorageType", "AccountingStorageUser", "AccountingStoreFlags",
    "AccountingStoreJobComment", "AcctGatherEnergyType", "AcctGatherFilesystemType",
    "AcctGatherInfinibandType", "AcctGatherInterconnectType", "AcctGatherNodeFreq",
    "AcctGatherProfileType", "AllowSpecResourcesUsage", "AuthAltParameters", "AuthAltTypes",
    "AuthInfo", "AuthType", "BackupAddr", "BackupController", "BatchStartTimeout", "BcastExclude",
    "BcastParameters", "BurstBufferParameters", "BurstBufferType", "CertmgrParameters",
    "CertmgrType", "CliFilterPlugins", "ClusterName", "CommunicationParameters", "CompleteWait",
    "ControlAddr", "ControlMachine", "CoreSpecPlugin", "CpuFreqDef", "CpuFreqGovernors", "CredType",
    "CryptoType", "DataParserParameters", "DebugFlags", "DefCPUPerGPU", "DefMemPerCPU",
    "DefMemPerGPU", "DefMemPerNode", "DependencyParameters", "DisableRootJobs", "DownNodes",
    "EioTimeout", "EnforcePartLimits", "Epilog", "EpilogMsgTime", "EpilogSlurmctld",
    "ExtSensorsFreq", "ExtSensorsType", "FairShareDampeningFactor", "FastSchedule",
    "FederationParameters", "FirstJobId", "FrontendName", "GetEnvTimeout", "GpuFreqDef",
    "GresTypes", "GroupUpdateForce", "GroupUpdateTime", "HashPlugin", "HealthCheckInterval",
    "HealthCheckNodeState", "HealthCheckProgram", "InactiveLimit", "InteractiveStepOptions",
    "JobAcctGatherFrequency", "JobAcctGatherParams", "JobAcctGatherType", "JobCompHost",
    "JobCompLoc", "JobCompParams", "JobCompPass", "JobCompPort", "JobCompType", "JobCompUser",
    "JobContainerType", "JobCredentialPrivateKey", "JobCredentialPublicCertificate",
    "JobFileAppend", "JobRequeue", "JobSubmitPlugins", "KeepAliveTime", "KillOnBadExit", "KillWait",
    "LaunchParameters", "LaunchType", "Licenses", "LogTimeFormat", "MailDomain", "MailProg",
    "MaxArraySize", "MaxBatchRequeue", "MaxDBDMsgs", "MaxJobCount", "MaxJobId", "MaxMemPerCPU",
    "MaxMemPerNode", "MaxNodeCount", "MaxStepCount", "MaxTasksPerNode", "MCSParameters",
    "MCSPlugin", "MessageTimeout", "MinJobAge", "MpiDefault", "MpiParams", "NodeFeaturesPlugins",
    "NodeName", "NodeSet", "OverTimeLimit", "PartitionName", "PluginDir", "PlugStackConfig",
    "PowerParameters", "PowerPlugin", "PreemptExemptTime", "PreemptMode", "PreemptParameters",
    "PreemptType", "PrEpParameters", "PrEpPlugins", "PriorityCalcPeriod", "PriorityDecayHalfLife",
    "PriorityFavorSmall", "PriorityFlags", "PriorityMaxAge", "PriorityParameters",
    "PrioritySiteFactorParameters", "PrioritySiteFactorPlugin", "PriorityType",
    "PriorityUsageResetPeriod", "PriorityWeightAge", "PriorityWeightAssoc",
    "PriorityWeightFairshare", "PriorityWeightJobSize", "PriorityWeightPartition",
    "PriorityWeightQOS", "PriorityWeightTRES", "PrivateData", "ProctrackType", "Prolog",
    "PrologEpilogTimeout", "PrologFlags", "PrologSlurmctld", "PropagatePrioProcess",
    "PropagateResourceLimits", "PropagateResourceLimitsExcept", "RebootProgram", "ReconfigFlags",
    "RequeueExit", "RequeueExitHold", "ResumeFailProgram", "ResumeProgram", "ResumeRate",
    "ResumeTimeout", "ResvEpilog", "ResvOverRun", "ResvProlog", "ReturnToService", "RoutePlugin",
    "SallocDefaultCommand", "SbcastParameters", "SchedulerParameters", "SchedulerTimeSlice",
    "SchedulerType", "ScronParameters", "SelectType", "SelectTypeParameters", "SlurmctldAddr",
    "SlurmctldDebug", "SlurmctldHost", "SlurmctldLogFile", "SlurmctldParameters",
    "SlurmctldPidFile", "SlurmctldPort", "SlurmctldPrimaryOffProg", "SlurmctldPrimaryOnProg",
    "SlurmctldSyslogDebug", "SlurmctldTimeout", "SlurmdDebug", "SlurmdLogFile", "SlurmdParameters",
    "SlurmdPidFile", "SlurmdPort", "SlurmdSpoolDir", "SlurmdSyslogDebug", "SlurmdTimeout",
    "SlurmdUser", "SlurmSchedLogFile", "SlurmSchedLogLevel", "SlurmUser", "SrunEpilog",
    "SrunPortRange", "SrunProlog", "StateSaveLocation", "SuspendExcNodes", "SuspendExcParts",
    "SuspendExcStates", "SuspendProgram", "SuspendRate", "SuspendTime", "SuspendTimeout",
    "SwitchParameters", "SwitchType", "TaskEpilog", "TaskPlugin", "TaskPluginParam", "TaskProlog",
    "TCPTimeout", "TLSParameters", "TLSType", "TmpFS", "TopologyParam", "TopologyPlugin",
    "TrackWCKey", "TreeWidth", "UnkillableStepProgram", "UnkillableStepTimeout", "UsePAM",
    "VSizeFactor", "WaitTime", "X11Parameters",
)  # fmt: skip
SLURMDBD = (
    "AllowNoDefAcct", "AllResourcesAbsolute", "ArchiveDir", "ArchiveEvents", "ArchiveJobs",
    "ArchiveResvs", "ArchiveScript", "ArchiveSteps", "ArchiveSuspend", "ArchiveTXN", "ArchiveUsage",
    "AuthAltParameters", "AuthAltTypes", "AuthInfo", "AuthType", "CommitDelay",
    "CommunicationParameters", "DbdAddr", "DbdBackupHost", "DbdHost", "DbdPort", "DebugFlags",
    "DebugLevel", "DebugLevelSyslog", "DefaultQOS", "DisableCoordDBD", "HashPlugin", "JobPurge",
    "LogFile", "LogTimeFormat", "MaxQueryTimeRange", "MessageTimeout", "Parameters", "PidFile",
    "PluginDir", "PrivateData", "PurgeEventAfter", "PurgeEventMonths", "PurgeJobAfter",
    "PurgeJobMonths", "PurgeResvAfter", "PurgeStepAfter", "PurgeStepMonths", "PurgeSuspendAfter",
    "PurgeSuspendMonths", "PurgeTXNAfter", "PurgeTXNMonths", "PurgeUsageAfter", "PurgeUsageMonths",
    "SlurmUser", "StepPurge", "StorageBackupHost", "StorageHost", "StorageLoc", "StorageParameters",
    "StoragePass", "StoragePort", "StorageType", "StorageUser", "TCPTimeout", "TLSParameters",
    "TLSType", "TrackSlurmctldDown", "TrackWCKey",
)  # fmt: skip
# For each file: groups of hosts, variables in the order of precedence, parameter names, and the
# manual page.
FILES = (
    (
        ("slurm_controller", "slurm_backup_controller"),
        ("slurm_config_site", "slurm_config_plugins", "slurm_config", "slurm_config_default"),
        SLURM,
        "slurm.conf",
    ),
    (
        ("slurm_accounting",),
        ("slurm_accounting_config", "slurm_accounting_config_default"),
        SLURMDBD,
        "slurmdbd.conf",
    ),
)


def files(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find parameters in the inventory that slurm.conf or slurmdbd.conf does not have."""
    for groups, variables, known, manual in FILES:
        reported: set[str] = set()
        for host in inventory.members(*groups):
            for variable in variables:
                table = host.value(variable)
                if isinstance(table, Mapping):
                    new = {key: value for key, value in table.items() if str(key) not in reported}
                    yield from unknown(variable, new, known, manual)
                    reported.update(map(str, new))


def unknown(
    where: str, table: Mapping[str, Any], known: Iterable[str], manual: str = "slurm.conf"
) -> Iterator[Diagnostic]:
    """Find keys of a table that are not parameters of Slurm."""
    by_lower_case = {name.lower(): name for name in known}
    for key in map(str, table):
        if key.lower() not in by_lower_case:
            near = difflib.get_close_matches(key.lower(), by_lower_case, n=1)
            question = f"did you mean {by_lower_case[near[0]]}? " if near else ""
            yield Diagnostic(
                where=f"{where}.{key}",
                seen="Slurm has no such parameter",
                allowed=f"{question}{manual}(5) lists them",
            )
