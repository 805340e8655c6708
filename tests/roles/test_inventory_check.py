# SPDX-License-Identifier: Apache-2.0
"""The inventory check reports all mistakes at once, each mistake in one message."""

from __future__ import annotations

import re

import pytest
import yaml
from tests.roles.catalogue import ROOT
from tests.roles.inventories import read_inventory, with_operator_values
from tests.roles.mistakes import files, grid, layout, network, nodes, roles, slurm


@pytest.mark.parametrize(
    "mistakes",
    # A mistake can hide another mistake. Such mistakes are in different cases.
    [
        layout.GROUP_MEMBERS | grid.GRID_SETTINGS | roles.ROLE_VARIABLES | files.PATH_AND_RENEWAL,
        layout.GROUP_SIZES
        | layout.DUPLICATE_ADDRESS
        | nodes.NODE_PARAMETERS
        | files.SECRETS_AND_AUTHORITY
        | roles.SYSTEM_UIDS,
        slurm.SLURM_SETTINGS | grid.LOCAL_CHAIN | roles.REVERSED_UID_RANGE,
        layout.TWO_CONTROLLERS
        | layout.ADDRESSES
        | nodes.NODE_SIZES
        | network.FLOWS_AND_NETWORKS
        | files.SECRETS_ARE_A_FILE
        | grid.MISSING_GRID,
        nodes.DEVICES | roles.WALLET_UID_IN_USE | grid.CONTRACT_CHECKSUM | files.FILES_NOT_MOVED,
        files.SECRETS_ARE_INVENTORY | grid.CHAIN_WITHOUT_GRID | slurm.HOOKS,
        files.FOLDERS_IN_INVENTORY | network.CVMFS_PORT_CONFLICT,
        network.APACHE_PORT_CONFLICT,
        layout.MISSING_WIRING,
    ],
)
def test_each_mistake_of_an_inventory_has_one_message(mistakes, inventory):
    for add_mistake, _ in mistakes.values():
        add_mistake(inventory)

    messages = inventory.problems()

    unexpected_messages = set(messages)
    for name, (_, phrases) in mistakes.items():
        matches = messages_with(phrases, messages)
        assert len(matches) == 1, (name, matches)
        unexpected_messages -= set(matches)
    assert unexpected_messages == set()
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


def test_one_port_for_https_and_grpc_is_valid(inventory):
    inventory.set_variables(traefik_grpc_port=443)

    assert inventory.problems() == []


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
