#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ansible inventory of the lab ``$GRIDSTEAD_LAB_NAME``, by default ``default``.

If the lab runs, the hosts and their addresses are read from its state. Otherwise the hosts and
groups are read from the topology (``$GRIDSTEAD_LAB_TOPOLOGY`` or the default topology) without
addresses, for lint and syntax checks.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "molecule" / "lab"))

from gridstead_lab import names, network, state, topology  # noqa: E402
from gridstead_lab.errors import LabError  # noqa: E402


def inventory(
    lab_names: names.Names, lab_state: state.State | None, lab_topology: topology.Topology
) -> dict[str, Any]:
    """Return the inventory in the format of ``--list`` of an inventory script.

    Args:
        lab_names: The lab's names.
        lab_state: The state of the lab, or None if the lab does not run.
        lab_topology: The topology, which is used only without a state.
    """
    members = lab_state.members if lab_state else lab_topology.members()
    groups = (
        lab_state.groups
        if lab_state
        else {name: list(children) for name, children in lab_topology.groups}
    )
    hosts = list(lab_state.hosts) if lab_state else list(lab_topology.names())
    hostvars = {}
    if lab_state:
        for name, host in lab_state.hosts.items():
            hostvars[name] = {"ansible_host": host["address"]}
    return {
        "_meta": {"hostvars": hostvars},
        "all": {"hosts": hosts, "vars": _variables(lab_names, lab_state)},
        # Plays use this group, even if the lab has no host in it.
        "slurm_backup_controller": {"hosts": []},
        **{name: {"hosts": group_hosts} for name, group_hosts in members.items()},
        **{name: {"children": children} for name, children in groups.items()},
    }


def _variables(lab_names: names.Names, lab_state: state.State | None) -> dict[str, Any]:
    folder = lab_names.state_folder
    variables = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": f"{folder}/id_ed25519",
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={folder}/known_hosts"
        " -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes",
        "ansible_python_interpreter": "/usr/bin/python3",
        "base_apt_update_cache": False,
        "gridstead_lab_name": lab_names.lab,
        "gridstead_lab_dir": str(folder),
        "gridstead_secrets_dir": f"{folder}/secrets",
    }
    if lab_state:
        variables |= {
            "ansible_control_path_dir": str(lab_names.ssh_socket_folder),
            "gridstead_lab_gateway": lab_state.gateway,
            "gridstead_lab_added": network.subnet_of_added_hosts(lab_state.network),
            "gridstead_lab_cgroup": lab_state.cgroup,
        }
    return variables


def main() -> int:
    """Print the inventory. Return 1 and print an error if the topology is invalid."""
    try:
        lab_names = names.names(CHECKOUT, os.environ.get("GRIDSTEAD_LAB_NAME", "default"))
        default = CHECKOUT / "molecule" / "lab" / "topology.json"
        file = Path(os.environ.get("GRIDSTEAD_LAB_TOPOLOGY") or default)
        result = inventory(lab_names, state.load(lab_names), topology.parse(file.read_text()))
    except (LabError, OSError) as err:
        print(f"inventory: {err}", file=sys.stderr)
        return 1
    print(json.dumps({} if "--host" in sys.argv else result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
