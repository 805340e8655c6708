# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the variables of roles: names, values and the uid range of wallets."""

from __future__ import annotations

from ansible.template import trust_as_template
from tests.roles.mistakes.table import Mistakes

ROLE_VARIABLES: Mistakes = {
    "example-values": (
        lambda inventory: inventory.set_variables(gridstead_domain="site.example"),
        (
            "the inventory: these values are still from the example:",
            "gridstead_domain (site.example)",
            "values of your site",
        ),
    ),
    "back-end": (
        lambda inventory: inventory.set_variables(shared_storage_backend="floppy"),
        ("shared_storage_backend", "must be one of: ", "floppy"),
    ),
    "type": (
        lambda inventory: inventory.set_variables(munge_threads="many"),
        ("role munge, munge_threads", "int"),
    ),
    "role-assertion": (
        lambda inventory: inventory.set_variables(directory_suffix="o=grid"),
        ("role directory", 'directory_suffix is "o=grid"'),
    ),
    "mirror": (
        lambda inventory: inventory.set_variables(container_runtime_mirror="ftp://x"),
        ("hosts compute1, compute2, gpu1", '"ftp://x"'),
    ),
    "variable-mistyped": (
        lambda inventory: inventory.set_variables("compute1", slurm_partitons={}),
        ("variable slurm_partitons of compute1", "did you mean slurm_partitions?"),
    ),
    "variable-unset": (
        lambda inventory: inventory.set_variables(sssd_shell=trust_as_template("{{ my_shell }}")),
        ("sssd_shell", "needs my_shell, which nothing sets"),
    ),
    "operator-locked-out": (
        lambda inventory: inventory.set_variables(base_ssh_users=["alice", "bob"]),
        ("role base", 'ansible_user, which is "root"', "alice, bob"),
    ),
    "gid-among-uids": (
        lambda inventory: inventory.set_variables(gridstead_wallet_gid=300000),
        ("gridstead_wallet_gid: 300000", "from 200001 to 999999", "below 200001"),
    ),
}

WALLET_UID_IN_USE: Mistakes = {
    "account-among-wallets": (
        lambda inventory: inventory.set_variables(
            slurm_plugins_extra_accounts=[{"uid": 200005, "gid": 5000}]
        ),
        ("role slurm_plugins", "slurm_plugins_extra_accounts", "200005", "cannot contain root"),
    ),
}

SYSTEM_UIDS: Mistakes = {
    "uids-of-the-system": (
        lambda inventory: inventory.set_variables(gridstead_wallet_uid_min=1000),
        ("gridstead_wallet_uid_min", "65536"),
    ),
}

REVERSED_UID_RANGE: Mistakes = {
    "uid-range-reversed": (
        lambda inventory: inventory.set_variables(gridstead_wallet_uid_max=200000),
        ("gridstead_wallet_uid_min: 200001, but gridstead_wallet_uid_max is 200000",),
    ),
}
