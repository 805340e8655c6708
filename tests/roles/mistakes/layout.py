# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the groups, in the addresses of hosts, and in the link 00-wiring."""

from __future__ import annotations

from tests.roles.mistakes.table import Mistakes

GROUP_MEMBERS: Mistakes = {
    "group-mistyped": (
        lambda inventory: inventory.set_group("sssd_client", "db"),
        ("group sssd_client", "did you mean sssd_clients?"),
    ),
    "group-incomplete": (
        lambda inventory: inventory.groups["sssd_clients"].remove("compute2"),
        ("group sssd_clients: compute2 is not in this group", "slurm_compute"),
    ),
    "unneeded-munge-key": (
        lambda inventory: inventory.groups["slurm"].append("control"),
        ("host control: in group slurm", "MUNGE key"),
    ),
    "backup-is-controller": (
        lambda inventory: (
            inventory.set_group("slurm_backup_controller", "controller"),
            inventory.groups["slurm"].remove("controller2"),
        ),
        ("host controller", "slurm_backup_controller", "another host"),
    ),
}

GROUP_SIZES: Mistakes = {
    "group-missing": (
        lambda inventory: inventory.groups.pop("storage"),
        ("group storage: 0 hosts", "exactly one"),
    ),
    "group-empty": (
        lambda inventory: (
            inventory.set_group("slurm_login"),
            inventory.groups["slurm"].remove("login"),
        ),
        ("group slurm_login: 0 hosts", "at least one"),
    ),
}

TWO_CONTROLLERS: Mistakes = {
    "two-controllers": (
        lambda inventory: inventory.set_group("slurm_controller", "controller", "login"),
        (
            "group slurm_controller: 2 hosts: controller, login",
            "exactly one",
            "slurm_backup_controller",
        ),
    ),
}

ADDRESSES: Mistakes = {
    "address-is-a-name": (
        lambda inventory: inventory.set_variables("db", ansible_host="db.test"),
        ('host db, gridstead_address: "db.test"', "IP address"),
    ),
    "address-missing": (
        lambda inventory: inventory.variables["compute1"].pop("ansible_host"),
        ("host compute1, gridstead_address: missing", "IP address"),
    ),
    "address-families": (
        lambda inventory: inventory.set_variables("control", ansible_host="2001:db8::14"),
        ("is IPv6", "of one family"),
    ),
}

DUPLICATE_ADDRESS: Mistakes = {
    "address-twice": (
        lambda inventory: inventory.set_variables("db", ansible_host="10.64.2.10"),
        ("hosts controller, db: all have the gridstead_address 10.64.2.10",),
    ),
}

MISSING_WIRING: Mistakes = {
    "no-wiring": (
        lambda inventory: inventory.remove_variable("gridstead_services"),
        ("00-wiring", "link"),
    ),
}
