# SPDX-License-Identifier: Apache-2.0
"""The inventory check reports all mistakes at once, each mistake in one message."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from ansible.template import trust_as_template
from tests.roles.catalogue import ROOT
from tests.roles.inventories import (
    NOW,
    Inventory,
    make_authority,
    read_inventory,
    with_operator_values,
)

DAY = dt.timedelta(days=1)


def make_secrets_readable(inventory: Inventory) -> None:
    inventory.secrets.mkdir(mode=0o755)
    (inventory.secrets / "munge_key").write_text(64 * "k")


def rename_only_the_variables(inventory: Inventory) -> None:
    """Set the variables to hidden folders, but leave the files in the former folders."""
    folder = inventory.secrets.parent / "site"
    for name in ("secrets", "backups"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("content")
    (folder / ".secrets").mkdir(mode=0o700)
    inventory.set_variables(inventory_dir=str(folder), gridstead_secrets_dir=f"{folder}/.secrets")


def create_git_work_tree(inventory: Inventory) -> None:
    subprocess.run(["git", "init", "--quiet", inventory.secrets.parent], check=True)


def make_expired_authority(inventory: Inventory) -> None:
    make_authority(inventory.secrets / "pki", NOW - 300 * DAY, NOW - 20 * DAY)


def add_local_chain(inventory: Inventory, **grid: Any) -> None:
    """Run a chain and the grid's services on host control."""
    inventory.set_group("devnet", "control")
    inventory.set_group("grid", "control")
    inventory.set_grid(rpc_url="http://127.0.0.1:8545", **grid)
    inventory.set_variables(devnet_anvil=__file__)


# For each mistake: its name, a function that adds the mistake to an inventory, and phrases of its
# message. The function does nothing if an earlier entry of the table already causes the mistake.
Mistakes = dict[str, tuple[Callable[[Inventory], object], tuple[str, ...]]]

# A test adds all mistakes of one table to one inventory.
MISTAKES_OF_ALL_KINDS: Mistakes = {
    "group-mistyped": (
        lambda i: i.set_group("sssd_client", "db"),
        ("group sssd_client", "did you mean sssd_clients?"),
    ),
    "group-incomplete": (
        lambda i: i.groups["sssd_clients"].remove("compute2"),
        ("group sssd_clients: compute2 is not in this group", "slurm_compute"),
    ),
    "unneeded-munge-key": (
        lambda i: i.groups["slurm"].append("control"),
        ("host control: in group slurm", "MUNGE key"),
    ),
    "backup-is-controller": (
        lambda i: (
            i.set_group("slurm_backup_controller", "controller"),
            i.groups["slurm"].remove("controller2"),
        ),
        ("host controller", "slurm_backup_controller", "another host"),
    ),
    "address-is-a-name": (
        lambda i: i.set_variables("db", ansible_host="db.test"),
        ('host db, gridstead_address: "db.test"', "IP address"),
    ),
    "node-missing": (
        lambda i: i.variables["compute1"].pop("slurm_node"),
        ("host compute1, slurm_node: missing", "CPUs"),
    ),
    "node-without-memory": (
        lambda i: i.set_node("compute2", RealMemory="256G"),
        ('host compute2, slurm_node.RealMemory: "256G"', "of MB", "free --mebi"),
    ),
    "gid-among-uids": (
        lambda i: i.set_variables(gridstead_wallet_gid=300000),
        ("gridstead_wallet_gid: 300000", "from 200001 to 999999", "below 200001"),
    ),
    "example-values": (
        lambda i: i.set_variables(gridstead_domain="site.example"),
        (
            "the inventory: these values are still from the example:",
            "gridstead_domain (site.example)",
            "values of your site",
        ),
    ),
    "grid-scheme": (
        lambda i: i.set_grid(rpc_url="ws://rpc.grid.test/v3/3f9c0ffee"),
        ("gridstead_grid.rpc_url", "found ws://rpc.grid.test/...", "grid's operator"),
    ),
    "grid-chain-id": (
        lambda i: i.set_grid(chain_id="main"),
        ("gridstead_grid.chain_id", "'main'", "integer", "grid's operator"),
    ),
    "grid-contract": (
        lambda i: i.set_grid(contract="0x123"),
        ("gridstead_grid.contract", "'0x123'", "40 hexadecimal digits"),
    ),
    "grid-endpoint": (
        lambda i: i.set_grid(logger="https://logger.grid.test:8445"),
        ("gridstead_grid.logger", "https://logger", "without a scheme"),
    ),
    "grid-endpoint-missing": (
        lambda i: i.set_grid(job_definitions=None),
        ("gridstead_grid.job_definitions: missing",),
    ),
    "grid-key": (
        lambda i: i.set_grid(first_blok=5),
        ("gridstead_grid.first_blok", "did you mean first_block?"),
    ),
    "price-missing": (
        lambda i: i.set_variables(
            gridstead_prices_per_minute={"gpu_credits": "-1", "memory_mb_credits": "1"}
        ),
        ("gridstead_prices_per_minute.cpu_credits: missing", "supervisor"),
    ),
    "price-negative": (
        lambda i: None,
        ("gridstead_prices_per_minute.gpu_credits", "equal to 0", "'-1'"),
    ),
    "transport": (
        lambda i: i.set_variables(gridstead_slurm_transport="smoke"),
        ("gridstead_slurm_transport", "'agent' or 'ssh'", "'smoke'"),
    ),
    "secrets-relative-path": (
        lambda i: i.set_variables(gridstead_secrets_dir="secrets"),
        ('gridstead_secrets_dir: "secrets"', "absolute path"),
    ),
    "renewal-too-late": (
        lambda i: i.set_variables(pki_renew_before_days=365),
        ("pki_renew_before_days: 365", "less"),
    ),
    "back-end": (
        lambda i: i.set_variables(shared_storage_backend="floppy"),
        ("shared_storage_backend", "must be one of: ", "floppy"),
    ),
    "type": (lambda i: i.set_variables(munge_threads="many"), ("role munge, munge_threads", "int")),
    "role-assertion": (
        lambda i: i.set_variables(directory_suffix="o=grid"),
        ("role directory", 'directory_suffix is "o=grid"'),
    ),
    "mirror": (
        lambda i: i.set_variables(container_runtime_mirror="ftp://x"),
        ("hosts compute1, compute2, gpu1", '"ftp://x"'),
    ),
    "variable-mistyped": (
        lambda i: i.set_variables("compute1", slurm_partitons={}),
        ("variable slurm_partitons of compute1", "did you mean slurm_partitions?"),
    ),
    "variable-unset": (
        lambda i: i.set_variables(sssd_shell=trust_as_template("{{ my_shell }}")),
        ("sssd_shell", "needs my_shell, which nothing sets"),
    ),
}

CLUSTER_MISTAKES: Mistakes = {
    "group-missing": (lambda i: i.groups.pop("storage"), ("group storage: 0 hosts", "exactly one")),
    "address-twice": (
        lambda i: i.set_variables("db", ansible_host="10.64.2.10"),
        ("hosts controller, db: all have the gridstead_address 10.64.2.10",),
    ),
    "node-without-cpus": (
        lambda i: i.set_node("compute1", CPUs=None),
        ("host compute1, slurm_node.CPUs: missing", "lscpu", "or slurmd -C"),
    ),
    "node-parameter": (
        lambda i: i.set_node("compute2", Socket=2),
        ("host compute2, slurm_node.Socket", "did you mean Sockets?"),
    ),
    "partition-for-wallets": (
        lambda i: i.set_variables(
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
        lambda i: None,
        ('slurm_partitions.text: "Nodes=ALL"', "parameters by name"),
    ),
    "partition-time": (
        lambda i: None,
        ("slurm_partitions.cpu.MaxTime: 43200, which is how YAML reads 12:00:00", "in quotes"),
    ),
    "partition-node": (
        lambda i: None,
        ("slurm_partitions.cpu.Nodes: compute3 is not a compute host", "compute1, compute2, gpu1"),
    ),
    "partition-gres": (
        lambda i: None,
        (
            'slurm_partitions.gpu: uses device "gpu", but no node of the partition declares it',
            "Gres: gpu:COUNT",
        ),
    ),
    "slurm-release-unknown": (
        lambda i: i.set_variables(
            base_apt_pins=[{"packages": ["slurm*"], "pin": "version 19.05.*", "priority": 990}]
        ),
        ("base_apt_pins", "Slurm 19.05 is not supported", "one of 24.11"),
    ),
    "slurm-conf-mistyped": (
        lambda i: i.set_variables(slurm_config_site={"KilWait": 60, "slurmdtimeout": 60}),
        (
            "slurm_config_site.KilWait",
            "no such parameter",
            "did you mean KillWait? Allowed: the parameters in slurm.conf(5)",
        ),
    ),
    "slurmdbd-conf-mistyped": (
        lambda i: i.set_variables(
            slurm_accounting_config={"PurgeJobsAfter": "30days", "StoragePass": "hunter2"}
        ),
        (
            "slurm_accounting_config.PurgeJobsAfter",
            "did you mean PurgeJobAfter? Allowed: the parameters in slurmdbd.conf(5)",
        ),
    ),
    "two-defaults": (
        lambda i: None,
        ("slurm_partitions: partitions cpu, gpu all have Default=YES", "one default"),
    ),
    "partition-qos": (
        lambda i: i.set_variables(
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
        lambda i: None,
        (
            "slurm_qos.long.MaxWal: there is no such setting;",
            "did you mean MaxWall? Allowed: one of Flags, GraceTime",
        ),
    ),
    "qos-time": (lambda i: None, ('slurm_qos.short.MaxWall: "a day"', "minutes, or [D-]HH:MM:SS")),
    "qos-text": (lambda i: None, ('slurm_qos.text: "MaxWall=90"', "settings by name")),
    "account-limit": (
        lambda i: i.set_variables(
            slurm_accounts_site=[
                {"name": "grid", "settings": {"GrpTRES": 64, "DefaultQOS": "lang"}}
            ]
        ),
        ('slurm_accounts "grid".GrpTRES: "64"', "cpu=4"),
    ),
    "account-qos": (lambda i: None, ('slurm_accounts "grid".DefaultQOS: there is no QOS "lang"',)),
    "uid-range-reversed": (
        lambda i: i.set_variables(gridstead_wallet_uid_max=200000),
        ("gridstead_wallet_uid_min: 200001, but gridstead_wallet_uid_max is 200000",),
    ),
    "grid-checksum": (
        lambda i: i.set_grid(contract="0x5AAeb6053f3E94C9b9A09f33669435E7Ef1BeAed"),
        ("gridstead_grid.contract", "is probably mistyped", "checksum"),
    ),
    "secrets-open": (make_secrets_readable, ("other users may enter", "chmod 0700")),
    "secret-readable": (lambda i: None, ("other users may read", "munge_key", "chmod 0600")),
    "secrets-committed": (
        create_git_work_tree,
        ("gridstead_secrets_dir", "git work tree that does not ignore it"),
    ),
    "authority-expired": (
        make_expired_authority,
        ("pki/ca.crt: the authority expired on 2029-12-12", "playbooks/authority.yml"),
    ),
}

LOCAL_CHAIN_MISTAKES: Mistakes = {
    "group-empty": (
        lambda i: (i.set_group("slurm_login"), i.groups["slurm"].remove("login")),
        ("group slurm_login: 0 hosts", "at least one"),
    ),
    "address-missing": (
        lambda i: i.variables["compute1"].pop("ansible_host"),
        ("host compute1, gridstead_address: missing", "IP address"),
    ),
    "node-shape": (
        lambda i: i.set_node("compute1", CPUs=100),
        ("slurm_node.CPUs: 100, but the node has 2 sockets with 32 cores each", "128"),
    ),
    "gres-unknown": (
        lambda i: (
            i.set_node("compute1", Gres="fpga:1"),
            i.set_variables(slurm_gres=[{"Name": "fpga", "File": "/dev/f"}]),
        ),
        ('unknown device "fpga"', "GresTypes"),
    ),
    "gres-without-file": (
        lambda i: None,
        ('host gpu1, slurm_node.Gres: no line of slurm_gres describes "gpu"', "AutoDetect"),
    ),
    "account-among-wallets": (
        lambda i: i.set_variables(slurm_plugins_extra_accounts=[{"uid": 200005, "gid": 5000}]),
        ("role slurm_plugins", "slurm_plugins_extra_accounts", "200005", "cannot contain root"),
    ),
    "grid-on-another-host": (
        lambda i: (add_local_chain(i), i.set_group("grid", "control", "infra")),
        ("host infra", "answers only on host control"),
    ),
    "two-chains": (
        lambda i: (
            i.set_grid(rpc_url="https://rpc.grid.test/v3/3f9c0ffee"),
            i.set_variables(devnet_port=8445),
        ),
        ("gridstead_grid.rpc_url: https://rpc.grid.test/..., ", "devnet", "http://127.0.0.1:8445"),
    ),
    "port-twice": (
        lambda i: None,
        ("host control, port 8445/tcp", "devnet (devnet_port) and by logger (listen)"),
    ),
    "certificates-outlive": (
        lambda i: i.set_variables(pki_valid_days=5000),
        ("pki_valid_days: 5000", "authority"),
    ),
}

UNSHARED_STATE: Mistakes = {
    "state-not-shared": (
        lambda i: i.set_variables(slurm_state_directory="/var/lib/slurm/slurmctld"),
        (
            'slurm_state_directory: "/var/lib/slurm/slurmctld" on controller',
            "both controllers mount",
        ),
    ),
}

FOLDERS_IN_INVENTORY: Mistakes = {
    "secrets-among-hosts": (
        lambda i: i.set_variables(inventory_dir=str(i.secrets.parent)),
        (
            "gridstead_secrets_dir: Ansible would read",
            "mv ",
            "/secrets /",
            "/.secrets; otherwise the next run",
        ),
    ),
    "backups-among-hosts": (
        lambda i: i.set_variables(archive_dir=str(i.secrets.parent / "archives" / "old")),
        (
            "archive_dir: Ansible would read",
            "/.archives/old, or",
            "/archives /",
            "/.archives. To be fixed",
        ),
    ),
}

FILES_NOT_MOVED: Mistakes = {
    "secrets-not-renamed": (
        rename_only_the_variables,
        ("gridstead_secrets_dir: ", "/.secrets is empty, but ", "/secrets is not", "mv "),
    ),
    "backups-not-renamed": (
        lambda i: None,
        ("archive_dir: ", "/.backups is empty, but ", "mv "),
    ),
}

SECRETS_ARE_INVENTORY: Mistakes = {
    "secrets-are-the-inventory": (
        lambda i: i.set_variables(inventory_dir=str(i.secrets)),
        ("gridstead_secrets_dir: it is the inventory folder", "/.secrets"),
    ),
}

CVMFS_PORT_CONFLICT: Mistakes = {
    "replica-beside-gateway": (
        lambda i: (
            i.set_group("cvmfs_replica", "control"),
            i.set_variables(cvmfs_listen="0.0.0.0:9443"),
        ),
        (
            "host control, port 9443/tcp",
            "Traefik (traefik_grpc_port) and by gridstead cvmfs (cvmfs_listen)",
        ),
    ),
}
APACHE_PORT_CONFLICT: Mistakes = {
    "replica-of-cern": (
        lambda i: (i.set_group("cvmfs_replica", "control"), i.set_variables(cvmfs_provider="cern")),
        ("host control, port 80/tcp", "Traefik and by Apache (cvmfs_provider)"),
    ),
}

GRID_MISTAKES: Mistakes = {
    "two-controllers": (
        lambda i: i.set_group("slurm_controller", "controller", "login"),
        (
            "group slurm_controller: 2 hosts: controller, login",
            "exactly one",
            "slurm_backup_controller",
        ),
    ),
    "address-families": (
        lambda i: i.set_variables("control", ansible_host="2001:db8::14"),
        ("is IPv6", "of one family"),
    ),
    "gres-on-no-node": (
        lambda i: i.set_variables(
            slurm_gres=[
                {"NodeName": "gpu[1-3]", "AutoDetect": "nvidia"},
                {"Name": "shard", "Count": 8},
            ]
        ),
        ('slurm_gres: a line for "shard", which no compute host declares',),
    ),
    "gres-of-no-node": (
        lambda i: None,
        (
            "slurm_gres: NodeName gpu[1-3]: gpu2, gpu3 is not a compute host",
            "compute1, compute2, gpu1",
        ),
    ),
    "flow-to-nowhere": (
        lambda i: i.set_variables(
            gridstead_extra_flows=[{"what": "x", "to": ["slurm_computes"], "from": ["anyone"]}, 5]
        ),
        ("gridstead_extra_flows, number 1", '"slurm_computes" is not a group'),
    ),
    "flow-is-a-number": (lambda i: None, ("gridstead_extra_flows, number 2", '"5" is not a flow')),
    "ssh-from-nowhere": (
        lambda i: i.set_variables(gridstead_ssh_from=["10.64.2.0/33"]),
        ("gridstead_flows, number 1", "flow ssh", '"10.64.2.0/33" is not a group, an address'),
    ),
    "invalid-network": (
        lambda i: i.set_variables(
            gridstead_networks={"slurm_compute": ["10.64.2.1/24"], "slurm_login": ["10.64.2.64/27"]}
        ),
        ("gridstead_networks.slurm_compute", "10.64.2.1/24 has host bits set"),
    ),
    "node-outside-its-network": (
        lambda i: None,
        (
            "gridstead_networks.slurm_login: address 10.64.2.12",
            "of host login is not in 10.64.2.64/27",
        ),
    ),
    "operator-locked-out": (
        lambda i: i.set_variables(base_ssh_users=["alice", "bob"]),
        ("role base", 'ansible_user, which is "root"', "alice, bob"),
    ),
    "uids-of-the-system": (
        lambda i: i.set_variables(gridstead_wallet_uid_min=1000),
        ("gridstead_wallet_uid_min", "65536"),
    ),
    "grid-missing": (
        lambda i: i.remove_variable("gridstead_grid"),
        ("gridstead_grid: missing", "rpc_url"),
    ),
    "secrets-in-a-file": (
        lambda i: i.secrets.touch(),
        ("gridstead_secrets_dir", "is not a folder"),
    ),
}

MISSING_WIRING: Mistakes = {
    "no-wiring": (
        lambda i: i.remove_variable("gridstead_services"),
        ("00-wiring", "link"),
    ),
}

CHAIN_WITHOUT_GRID: Mistakes = {
    "devnet-without-grid": (
        lambda i: (add_local_chain(i), i.set_group("grid")),
        ("host control: in group devnet but not in group grid",),
    ),
}


@pytest.mark.parametrize(
    "mistakes",
    [
        MISTAKES_OF_ALL_KINDS,
        CLUSTER_MISTAKES,
        LOCAL_CHAIN_MISTAKES,
        GRID_MISTAKES,
        MISSING_WIRING,
        CHAIN_WITHOUT_GRID,
        UNSHARED_STATE,
        FOLDERS_IN_INVENTORY,
        FILES_NOT_MOVED,
        SECRETS_ARE_INVENTORY,
        CVMFS_PORT_CONFLICT,
        APACHE_PORT_CONFLICT,
    ],
)
def test_each_mistake_of_an_inventory_has_one_message(mistakes, inventory):
    for add_mistake, _ in mistakes.values():
        add_mistake(inventory)

    messages = inventory.problems()

    unexpected = set(messages)
    for name, (_, phrases) in mistakes.items():
        matches = messages_with(phrases, messages)
        assert len(matches) == 1, (name, matches)
        unexpected -= set(matches)
    assert unexpected == set()
    assert messages_with(["To be fixed by the "], messages) == messages


def messages_with(phrases, messages):
    """Return the messages that contain all phrases."""
    for phrase in phrases:
        messages = [message for message in messages if phrase in message]
    return messages


@pytest.mark.parametrize("name", ["example", "single"])
def test_an_example_is_valid_and_its_check_creates_no_secret(name, loader, tmp_path):
    inventory = read_inventory(loader, name, tmp_path / "secrets")

    assert inventory.problems() == []
    assert not inventory.secrets.exists()


def test_a_lab_with_addresses_is_valid(loader, tmp_path):
    assert read_inventory(loader, "lab", tmp_path / "secrets").problems() == []


def test_the_documented_external_file_systems_are_valid(inventory):
    text = (ROOT / "inventory/example/group_vars/all/example.yml").read_text()
    comments = re.findall(r"^# shared_storage_external:\n(?:#   .*\n)+", text, re.MULTILINE)

    types = set()
    for comment in comments:
        variables = yaml.safe_load(comment.replace("\n# ", "\n").removeprefix("# "))
        inventory.set_variables(
            shared_storage_backend="external", **with_operator_values(variables)
        )
        assert inventory.problems() == []
        types.add(variables["shared_storage_external"]["type"])
    assert types == {"beegfs", "lustre", "ceph"}
