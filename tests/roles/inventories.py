# SPDX-License-Identifier: Apache-2.0
"""Inventories of the repository as data, for tests that change them and run the inventory check."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.check import check
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.roles.catalogue import ROOT

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


@dataclass
class Inventory:
    """An inventory that a test may change.

    Args:
        loader: Ansible's loader, with which the inventory check reads files.
        groups: The names of the hosts by group.
        variables: The variables by host.
        secrets: The folder of the site's secrets, which the test creates.
    """

    loader: DataLoader
    groups: dict[str, list[str]]
    variables: dict[str, dict[str, Any]]
    secrets: Path

    def set_variables(self, *hosts: str, **values: Any) -> None:
        """Set variables of the named hosts, or of all hosts."""
        for host in hosts or self.variables:
            self.variables[host] = {**self.variables[host], **values}

    def remove_variable(self, name: str) -> None:
        """Remove a variable from all hosts."""
        for variables in self.variables.values():
            del variables[name]

    def set_grid(self, **values: Any) -> None:
        """Set keys of gridstead_grid. None removes a key."""
        changed_grid = {**self.variables["control"]["gridstead_grid"], **values}
        self.set_variables(gridstead_grid=without_none(changed_grid))

    def set_node(self, host: str, **values: Any) -> None:
        """Set keys of a host's slurm_node. None removes a key."""
        changed = {**self.variables[host]["slurm_node"], **values}
        self.set_variables(host, slurm_node=without_none(changed))

    def set_group(self, name: str, *hosts: str) -> None:
        """Set the hosts of a group."""
        self.groups[name] = list(hosts)

    def problems(self) -> list[str]:
        """Return the messages of the inventory check."""
        for host in self.variables:
            self.set_variables(host, groups=self.groups, group_names=self.groups_of(host))
        return [str(problem) for problem in check(self.groups, self.variables, self.loader, NOW)]

    def groups_of(self, host: str) -> list[str]:
        """Return the groups of a host, except for group all, sorted."""
        names = [group for group, hosts in self.groups.items() if host in hosts]
        return sorted(set(names) - {"all"})


def without_none(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table without the keys whose value is None."""
    return {key: value for key, value in table.items() if value is not None}


def make_authority(folder: Path, begins: dt.datetime, ends: dt.datetime) -> None:
    """Write a self-signed CA, valid from begins to ends, in a folder, as role pki does."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begins, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    folder.mkdir(mode=0o700, parents=True)
    (folder / "ca.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "ca.key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    (folder / "ca.key").chmod(0o600)


# Patterns for the values of the example inventory, and an operator's value to replace each match.
EXAMPLE_VALUES = (
    (r"\.example\b(\.org)?", ".test"),
    (r"\bexample\.org", "site.test"),
    (r"\b192\.0\.2\.", "10.64.2."),
    (r"([0-9a-f])\1{39,}", lambda match: ("12" * len(match[0]))[: len(match[0])]),
)


def replace_example_values(text: str) -> str:
    """Return a text of an inventory with an operator's values instead of example values."""
    for pattern, replacement in EXAMPLE_VALUES:
        text = re.sub(pattern, replacement, text)
    return text


def copy_inventory(name: str, folder: Path) -> Path:
    """Copy an inventory of the repository and replace its example values. Return the folder."""
    shutil.copytree(ROOT / "inventory" / name, folder, ignore=shutil.ignore_patterns("00-wiring"))
    for file in folder.rglob("*.yml"):
        file.write_text(replace_example_values(file.read_text()))
    (folder / "group_vars/all/00-wiring").symlink_to(ROOT / "inventory/group_vars/all")
    return folder


def with_operator_values(value: Any) -> Any:
    """Return a variable with an operator's values instead of example values in all its strings."""
    if isinstance(value, dict):
        return {key: with_operator_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_operator_values(item) for item in value]
    if not isinstance(value, str):
        return value
    replaced_value = replace_example_values(value)
    return value if replaced_value == value else trust_as_template(replaced_value)


def read_inventory(loader: DataLoader, name: str, secrets: Path) -> Inventory:
    """Return an inventory of the repository with an operator's values instead of example values.

    ``secrets`` is the folder of the site's secrets.
    """
    manager = InventoryManager(loader=loader, sources=[str(ROOT / "inventory" / name)])
    for number, host in enumerate(manager.get_hosts(), start=11):
        if "ansible_host" not in host.vars:  # A running lab sets the address.
            host.set_variable("ansible_host", f"10.64.0.{number}")
            host.set_variable("gridstead_lab_gateway", "10.64.0.1")
            host.set_variable("gridstead_lab_added", "10.64.0.240/28")
    hostvars = HostVars(manager, VariableManager(loader=loader, inventory=manager), loader)
    groups = {group: list(hosts) for group, hosts in manager.get_groups_dict().items()}
    variables = {}
    for host in groups["all"]:
        values = hostvars.raw_get(host)
        if name != "lab":  # The inventory of a lab has no example values.
            values = with_operator_values(values)
        variables[host] = {**values, "hostvars": hostvars}
    inventory = Inventory(loader, groups, variables, secrets)
    inventory.set_variables(gridstead_secrets_dir=str(secrets))
    return inventory
