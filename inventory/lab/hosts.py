#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ansible inventory of the lab ``$GRIDSTEAD_LAB_NAME``, by default ``default``.

While the lab is up, its state has the addresses. Before that, the inventory has the hosts and
groups of the topology (``$GRIDSTEAD_LAB_TOPOLOGY``, or the default one) without addresses, for lint
and syntax checks.
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
    mine: names.Names, now: state.State | None, asked: topology.Topology
) -> dict[str, Any]:
    """Return the inventory, in the format of a script's ``--list``. Pure.

    Args:
        mine: The lab's names.
        now: The state of the lab, if it is up. It is preferred to the topology.
        asked: The topology.
    """
    members = now.members if now else asked.members()
    groups = now.groups if now else {name: list(children) for name, children in asked.groups}
    hosts = list(now.hosts) if now else list(asked.names())
    hostvars = {}
    if now:
        for name, host in now.hosts.items():
            hostvars[name] = {"ansible_host": host["address"]}
    return {
        "_meta": {"hostvars": hostvars},
        "all": {"hosts": hosts, "vars": _variables(mine, now)},
        # Plays use this group, even if the lab has no such host.
        "slurm_backup_controller": {"hosts": []},
        **{name: {"hosts": listed} for name, listed in members.items()},
        **{name: {"children": children} for name, children in groups.items()},
    }


def _variables(mine: names.Names, now: state.State | None) -> dict[str, Any]:
    folder = mine.state
    variables = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": f"{folder}/id_ed25519",
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={folder}/known_hosts"
        " -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes",
        "ansible_python_interpreter": "/usr/bin/python3",
        "base_apt_update_cache": False,
        "gridstead_lab_name": mine.lab,
        "gridstead_lab_dir": str(folder),
        "gridstead_secrets_dir": f"{folder}/secrets",
    }
    if now:
        variables |= {
            "ansible_control_path_dir": str(mine.sockets),
            "gridstead_lab_gateway": now.gateway,
            "gridstead_lab_added": network.subnet_of_added_hosts(now.network),
            "gridstead_lab_cgroup": now.cgroup,
        }
    return variables


def main() -> int:
    """Print the inventory. Return 1 and print an error if the topology is invalid."""
    try:
        mine = names.names(CHECKOUT, os.environ.get("GRIDSTEAD_LAB_NAME", "default"))
        default = CHECKOUT / "molecule" / "lab" / "topology.json"
        file = Path(os.environ.get("GRIDSTEAD_LAB_TOPOLOGY") or default)
        printed = inventory(mine, state.load(mine), topology.parse(file.read_text()))
    except (LabError, OSError) as err:
        print(f"inventory: {err}", file=sys.stderr)
        return 1
    print(json.dumps({} if "--host" in sys.argv else printed, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
