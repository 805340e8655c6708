# SPDX-License-Identifier: Apache-2.0
"""The folder ``.lab/<name>`` of a checkout, with the files that are needed to reach the hosts.

``state.json`` is written last, by a rename: a lab with this file is complete. Teardown does not
need the file, because it finds all objects by the lab's prefix.
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
    """A lab that is up.

    Shape: ``hosts`` is name -> {address, octet, groups, memory_mb, cores, job_cgroups}. ``groups``
    is name -> child groups. ``members`` is group name -> hosts. ``image`` is the list of layer
    names.
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
        raw = json.loads((names.state / "state.json").read_text())
    except FileNotFoundError:
        return None
    return State(**raw)


def save(names: Names, state: State) -> None:
    """Store the state. From then on the lab is up."""
    fields = {name: getattr(state, name) for name in State.__slots__}
    new = names.state / "state.json.new"
    new.write_text(json.dumps(fields, indent=2) + "\n")
    new.replace(names.state / "state.json")


def make_folder(names: Names) -> str:
    """Create the lab's folder with an ssh key and a folder for secrets; return the public key."""
    names.state.mkdir(parents=True, mode=0o700)
    (names.state / "secrets").mkdir(mode=0o700)
    key = names.state / "id_ed25519"
    commands.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {names.lab}", "-f", str(key)]
    )
    return key.with_suffix(".pub").read_text()


def write_ssh_files(names: Names, hosts: dict[str, tuple[str, str]]) -> None:
    """Write known_hosts and ssh_config.

    Args:
        names: The lab.
        hosts: Name -> (address, public host key).
    """
    known = [f"{name},{address} {key}\n" for name, (address, key) in hosts.items()]
    (names.state / "known_hosts").write_text("".join(known))
    (names.state / "ssh_config").write_text(ssh_config(names.state, hosts))


def read_host_keys(names: Names) -> dict[str, tuple[str, str]]:
    """Return the argument ``hosts`` of the last call of ``write_ssh_files``."""
    hosts = {}
    for line in (names.state / "known_hosts").read_text().splitlines():
        host, key = line.split(" ", 1)
        name, address = host.split(",")
        hosts[name] = (address, key)
    return hosts


def ssh_config(folder: Path, hosts: dict[str, tuple[str, str]]) -> str:
    """Return the text of an ssh_config for the hosts. Pure."""
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
