# SPDX-License-Identifier: Apache-2.0
"""The folder ``.lab/<name>`` of a checkout, with the lab's state, keys and ssh configuration.

The last step of command ``up`` creates ``state.json`` by a rename, so a lab with this file is
complete. The teardown of a lab does not need the file, because the teardown finds all objects of
the lab by the prefix of their names.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridstead_lab import commands
from gridstead_lab.names import Names

PORT = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a lab that is up.

    Attributes:
        lab: The name of the lab.
        prefix: The prefix of the names of the lab's objects, such as network devices.
        topology: The digest of the topology.
        network: The /24 of the lab.
        gateway: The machine's address in the network.
        cgroup: The version of the hosts' cgroups, ``v1`` or ``v2``.
        image: The names of the image's layers.
        groups: The child groups of each group.
        members: The hosts of each group.
        hosts: For each host: address, octet, groups, memory_mb, cores and job_cgroups.
    """

    lab: str
    prefix: str
    topology: str
    network: str
    gateway: str
    cgroup: str
    image: list[str]
    groups: dict[str, list[str]]
    members: dict[str, list[str]]
    hosts: dict[str, dict[str, Any]]


def load(names: Names) -> State | None:
    """Return the state of a lab, or None if the lab is not completely up."""
    try:
        raw = json.loads((names.state_folder / "state.json").read_text())
    except FileNotFoundError:
        return None
    return State(**raw)


def save(names: Names, state: State) -> None:
    """Write the state file, which marks the lab as up."""
    fields = {name: getattr(state, name) for name in State.__slots__}
    new_file = names.state_folder / "state.json.new"
    new_file.write_text(json.dumps(fields, indent=2) + "\n")
    new_file.replace(names.state_folder / "state.json")


def make_folder(names: Names) -> str:
    """Create the lab's folder with an ssh key and a folder for secrets. Return the public key."""
    names.state_folder.mkdir(parents=True, mode=0o700)
    (names.state_folder / "secrets").mkdir(mode=0o700)
    key = names.state_folder / "id_ed25519"
    commands.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {names.lab}", "-f", str(key)]
    )
    return key.with_suffix(".pub").read_text()


def write_ssh_files(names: Names, hosts: dict[str, tuple[str, str]]) -> None:
    """Write known_hosts and ssh_config.

    Args:
        names: The lab.
        hosts: The address and the public host key of each host, by name.
    """
    known_hosts = [f"{name},{address} {key}\n" for name, (address, key) in hosts.items()]
    (names.state_folder / "known_hosts").write_text("".join(known_hosts))
    (names.state_folder / "ssh_config").write_text(ssh_config(names.state_folder, hosts))


def read_host_keys(names: Names) -> dict[str, tuple[str, str]]:
    """Return the address and the public host key of each host, from known_hosts."""
    hosts = {}
    for line in (names.state_folder / "known_hosts").read_text().splitlines():
        host, key = line.split(" ", 1)
        name, address = host.split(",")
        hosts[name] = (address, key)
    return hosts


def ssh_config(folder: Path, hosts: dict[str, tuple[str, str]]) -> str:
    """Return the text of an ssh_config for the hosts."""
    blocks = ""
    for name, (address, _) in hosts.items():
        blocks += f"Host {name}\n    HostName {address}\n    HostKeyAlias {name}\n"
    common = (
        f"Host {' '.join(hosts)}\n"
        "    User root\n"
        f"    Port {PORT}\n"
        f'    IdentityFile "{folder}/id_ed25519"\n'
        "    IdentitiesOnly yes\n"
        f'    UserKnownHostsFile "{folder}/known_hosts"\n'
        "    StrictHostKeyChecking yes\n"
        "    ConnectTimeout 10\n"
        "    LogLevel ERROR\n"
    )
    return blocks + common
