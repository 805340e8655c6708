# SPDX-License-Identifier: Apache-2.0
"""The inventory of the guest: a copy of inventory/single, as an operator adapts it."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from gridstead_lab.errors import LabError
from gridstead_lab.names import Names
from gridstead_vm.qemu import GuestSize

EXAMPLE_HOST = re.compile(r"grid1: \{ansible_host: [^}]*\}")
HOST = "grid1"
SERVICES_MB = 4000  # memory for the services, as inventory/single recommends
SMALLEST_NODE_MB = 1000
# The variables of a guest whose disk already contains the packages and the wheels.
PREPARED = {
    "control_plane_wheelhouse": "/var/cache/gridstead/wheels",
    "container_runtime_mirror": "",
}


def write(names: Names, address: str, values: Mapping[str, object]) -> Path:
    """Write the inventory to the guest's folder and return the path of its hosts.yml.

    Args:
        names: The names of the guest's objects.
        address: The address of the guest.
        values: The variables that differ from inventory/single.
    """
    source, folder = names.checkout / "inventory/single", names.state_folder / "inventory"
    variables = folder / "group_vars/all"
    variables.mkdir(parents=True)
    (variables / "00-wiring").symlink_to(names.checkout / "inventory/group_vars/all")
    shutil.copy(source / "group_vars/all/single.yml", variables / "10-single.yml")
    # JSON is YAML.
    (variables / "20-vm.yml").write_text(json.dumps(values, indent=2) + "\n")
    hosts = folder / "hosts.yml"
    hosts.write_text(hosts_text((source / "hosts.yml").read_text(), address))
    return hosts


def hosts_text(example: str, address: str) -> str:
    """Return hosts.yml of inventory/single with another address.

    Raises:
        LabError: If the text does not contain the host exactly once.
    """
    text, count = EXAMPLE_HOST.subn(f"{HOST}: {{ansible_host: {address}}}", example)
    if count != 1:
        message = f"inventory/single/hosts.yml has {count} hosts like `{EXAMPLE_HOST.pattern}`"
        raise LabError(message)
    return text


def site_values(names: Names, gateway: str, size: GuestSize, mirror: str) -> dict[str, object]:
    """Return the variables that differ from inventory/single.

    Args:
        names: The names of the guest's objects.
        gateway: The address of this machine, on which the customers run.
        size: The size of the guest.
        mirror: The Debian mirror from which Apptainer is installed.
    """
    node_mb = max(size.memory_mb - SERVICES_MB, SMALLEST_NODE_MB)
    return {
        "ansible_ssh_private_key_file": f"{names.state_folder}/id_ed25519",
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={names.state_folder}/known_hosts"
        f" -o HostKeyAlias={HOST} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes",
        "ansible_control_path_dir": str(names.ssh_socket_folder),
        "gridstead_secrets_dir": f"{names.state_folder}/secrets",
        "slurm_node": {"CPUs": size.cpus, "RealMemory": node_mb},
        "container_runtime_mirror": mirror,
        "devnet_allowed_addresses": [gateway],
    }
