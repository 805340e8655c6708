# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the settings of Slurm: partitions, QOS, accounts and configuration files."""

from __future__ import annotations

from tests.roles.mistakes.table import Mistakes, caused_by_earlier_entry

SLURM_SETTINGS: Mistakes = {
    "partition-for-wallets": (
        lambda inventory: inventory.set_variables(
            slurm_partitions={
                "cpu": {
                    "Nodes": "compute[1-3]",
                    "Default": "YES",
                    "AllowQos": "normal,Long,lang",
                    "maxtime": 43200,
                },
                "text": "Nodes=ALL",
                "gpu": {
                    "Nodes": "compute[1-2]",
                    "TRESBillingWeights": "GRES/gpu=2.0",
                    "Default": "YES",
                },
            }
        ),
        ('slurm_wallets.partition: "main"', "is not a partition", "cpu, text, gpu"),
    ),
    "partition-text": (
        caused_by_earlier_entry,
        ('slurm_partitions.text: "Nodes=ALL"', "parameters by name"),
    ),
    "partition-time": (
        caused_by_earlier_entry,
        ("slurm_partitions.cpu.MaxTime: 43200, which is how YAML reads 12:00:00", "in quotes"),
    ),
    "partition-node": (
        caused_by_earlier_entry,
        ("slurm_partitions.cpu.Nodes: compute3 is not a compute host", "compute1, compute2, gpu1"),
    ),
    "partition-gres": (
        caused_by_earlier_entry,
        (
            'slurm_partitions.gpu: uses device "gpu", but no node of the partition declares it',
            "Gres: gpu:COUNT",
        ),
    ),
    "two-defaults": (
        caused_by_earlier_entry,
        ("slurm_partitions: partitions cpu, gpu all have Default=YES", "one default"),
    ),
    "partition-qos": (
        lambda inventory: inventory.set_variables(
            slurm_qos={
                "long": {"MaxWal": "1-0"},
                "short": {"MaxWall": "a day"},
                "text": "MaxWall=90",
                "bare": None,
            }
        ),
        (
            'slurm_partitions.cpu.AllowQos: there is no QOS "lang"',
            "bare, long, normal, short, text; to use",
        ),
    ),
    "qos-setting": (
        caused_by_earlier_entry,
        (
            "slurm_qos.long.MaxWal: there is no such setting;",
            "did you mean MaxWall? Allowed: one of Flags, GraceTime",
        ),
    ),
    "qos-time": (
        caused_by_earlier_entry,
        ('slurm_qos.short.MaxWall: "a day"', "minutes, or [D-]HH:MM:SS"),
    ),
    "qos-text": (caused_by_earlier_entry, ('slurm_qos.text: "MaxWall=90"', "settings by name")),
    "account-limit": (
        lambda inventory: inventory.set_variables(
            slurm_accounts_site=[
                {"name": "grid", "settings": {"GrpTRES": 64, "DefaultQOS": "lang"}}
            ]
        ),
        ('slurm_accounts "grid".GrpTRES: "64"', "cpu=4"),
    ),
    "account-qos": (
        caused_by_earlier_entry,
        ('slurm_accounts "grid".DefaultQOS: there is no QOS "lang"',),
    ),
    "slurm-release-unknown": (
        lambda inventory: inventory.set_variables(
            base_apt_pins=[{"packages": ["slurm*"], "pin": "version 19.05.*", "priority": 990}]
        ),
        ("base_apt_pins", "Slurm 19.05 is not supported", "one of 24.11"),
    ),
    "slurm-conf-mistyped": (
        lambda inventory: inventory.set_variables(
            slurm_config_site={"KilWait": 60, "slurmdtimeout": 60}
        ),
        (
            "slurm_config_site.KilWait",
            "no such parameter",
            "did you mean KillWait? Allowed: the parameters in slurm.conf(5)",
        ),
    ),
    "slurmdbd-conf-mistyped": (
        lambda inventory: inventory.set_variables(
            slurm_accounting_config={"PurgeJobsAfter": "30days", "StoragePass": "hunter2"}
        ),
        (
            "slurm_accounting_config.PurgeJobsAfter",
            "did you mean PurgeJobAfter? Allowed: the parameters in slurmdbd.conf(5)",
        ),
    ),
    "state-not-shared": (
        lambda inventory: inventory.set_variables(slurm_state_directory="/var/lib/slurm/slurmctld"),
        (
            'slurm_state_directory: "/var/lib/slurm/slurmctld" on controller',
            "both controllers mount",
        ),
    ),
}

HOOKS: Mistakes = {
    "hook-without-command": (
        lambda inventory: inventory.set_variables(
            slurm_pre_hooks=[{"what": "GPUs"}],
            slurm_post_hooks=[
                {"what": "clean", "script": "files/clean"},
                {"what": "clean up", "script": "other/clean"},
            ],
            slurm_hook_timeout_s=0,
            slurm_agent_address="",
        ),
        ("role slurm", "Each hook needs either argv (a list of words, not empty) or script"),
    ),
    "hook-scripts": (
        caused_by_earlier_entry,
        ("role slurm", "files/clean", "other/clean", "must be the absolute path of a file"),
    ),
    "hook-timeout": (
        caused_by_earlier_entry,
        ("role slurm", "slurm_hook_timeout_s is 0", "must be from 1 to 300"),
    ),
    "hook-reports": (caused_by_earlier_entry, ("role slurm", 'slurm_agent_address is ""')),
}
