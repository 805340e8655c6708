# SPDX-License-Identifier: Apache-2.0
"""Fixtures: inventories of the repository, read by Ansible without a connection to any host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from tests.roles.catalogue import COLLECTION, ROOT, Role
from tests.roles.inventories import read_inventory
from tests.yaml_files import read_yaml

# Files with variables that a role sets only during a run, such as the item of a loop.
SAMPLES = Path(__file__).parent / "samples"
FACTS = {
    "hostname": "host",
    "os_family": "Debian",
    "distribution": "Debian",
    "distribution_major_version": "13",
    "ssh_host_key_ed25519_public": "AAAAC3NzaC1lZDI1NTE5AAAAIPmRbhR5q3",
}


def trust_templates(value: Any) -> Any:
    """Return a value of a YAML file, with all strings in the value marked as trusted templates."""
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, dict):
        return {key: trust_templates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [trust_templates(item) for item in value]
    return value


def roles_of(play: dict[str, Any]) -> set[str]:
    """Return the names of the roles that a play lists or imports."""
    names = set()
    for entry in play.get("roles", []):
        names.add(entry["role"] if isinstance(entry, dict) else entry)
    for task in play.get("tasks", []):
        if "ansible.builtin.import_role" in task:
            names.add(task["ansible.builtin.import_role"]["name"])
    return {name.removeprefix(COLLECTION) for name in names}


@dataclass(frozen=True)
class LoadedInventory:
    """An inventory that Ansible has loaded, with the variables of its hosts."""

    loader: DataLoader
    inventory: InventoryManager
    variables: VariableManager

    def patterns_of(self, role: Role) -> list[str]:
        """Return the sorted host patterns of the plays that run the role."""
        patterns = set()
        for path in (ROOT / "playbooks").glob("**/*.yml"):
            for play in read_yaml(path):
                if "hosts" in play and role.name in roles_of(play):
                    # Remove the template, which follows the pattern and excludes unreachable hosts.
                    patterns.add(play["hosts"].partition("{{")[0])
        return sorted(patterns)

    def hosts_of(self, role: Role) -> list[str]:
        """Return the sorted hosts of the plays that run the role.

        The list is empty for a role that the site does not use, such as role devnet.
        """
        names = set()
        for pattern in self.patterns_of(role):
            names |= {host.name for host in self.inventory.get_hosts(pattern)}
        return sorted(names)

    def templar(self, role: Role, host: str, **variables: object) -> Templar:
        """Return a renderer of the role's templates for a host, with additional variables."""
        path = SAMPLES / f"{role.name}.yml"
        samples = read_yaml(path) if path.exists() else {}
        available_variables = {
            "ansible_managed": "Ansible managed",
            "ansible_check_mode": False,
            **trust_templates(role.defaults),
            **self.variables.get_vars(host=self.inventory.get_host(host)),
            **variables,
            **trust_templates(role.vars),
            **trust_templates(samples),
            "role_path": str(role.path),
        }
        return Templar(loader=self.loader, variables=available_variables)

    def render(self, role: Role, template: Path, host: str, **variables: object) -> str:
        """Return a template as the role writes it on a host, with additional variables."""
        text = trust_as_template(template.read_text())
        return str(self.templar(role, host, **variables).template(text, convert_data=False))


def load_inventory(name: str, secrets: Path) -> LoadedInventory:
    """Return an inventory of the repository. ``secrets`` is the folder of its secrets."""
    loader = DataLoader()
    loader.set_basedir(str(ROOT))
    inventory = InventoryManager(loader=loader, sources=[str(ROOT / "inventory" / name)])
    variables = VariableManager(loader=loader, inventory=inventory)
    variables._extra_vars = {
        "gridstead_secrets_dir": str(secrets),
        "playbook_dir": str(ROOT / "playbooks"),
    }
    for host in inventory.get_hosts():
        variables.set_host_facts(host.name, FACTS)
    # The constructor adds hostvars, the variables of all hosts, to the variables of each host.
    HostVars(inventory=inventory, variable_manager=variables, loader=loader)
    return LoadedInventory(loader, inventory, variables)


@pytest.fixture(scope="session")
def loader() -> DataLoader:
    """Ansible's loader of files, with playbooks/ as its base folder."""
    data_loader = DataLoader()
    data_loader.set_basedir(str(ROOT / "playbooks"))
    return data_loader


@pytest.fixture
def inventory(loader, tmp_path):
    """The example inventory with an operator's values. A test may change it."""
    return read_inventory(loader, "example", tmp_path / "secrets")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> LoadedInventory:
    """The example inventory."""
    return load_inventory("example", tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="session")
def site_of(
    site: LoadedInventory, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Role], LoadedInventory]:
    """A function that returns an inventory in which a role has hosts.

    For a role with hosts in the example inventory, it is the example inventory. For any other role,
    it is the inventory of a single host with a private chain.
    """
    single_site = load_inventory("single", tmp_path_factory.mktemp("secrets"))

    def inventory_of(role: Role) -> LoadedInventory:
        return site if site.hosts_of(role) else single_site

    return inventory_of


@pytest.fixture
def render(site: LoadedInventory) -> Callable[..., str]:
    """``LoadedInventory.render`` of the example inventory."""
    return site.render
