# SPDX-License-Identifier: Apache-2.0
"""Add a host to a lab that is up, and remove an added host.

The state file lists only complete hosts: ``add`` writes the name last, and ``remove`` deletes the
name first. The next run for the same name, or ``down``, removes the objects that a killed run left.
"""

import dataclasses
from typing import Any

from gridstead_lab import cgroups, host, image, network, state
from gridstead_lab.errors import LabError
from gridstead_lab.lifecycle import cgroup_setup_of, create_host, running_lab, wait_for_ssh
from gridstead_lab.names import Names
from gridstead_lab.processes import wait_until_false
from gridstead_lab.topology import NAME

KILL_S = 10.0


def add(names: Names, name: str, model_host: str) -> None:
    """Create a host with the groups and limits of ``model_host``.

    Returns after the new host has answered on its ssh port.

    Raises:
        LabError: If the name is in use or not allowed, the lab is not up or has no host
            ``model_host``, no address is free, or the new host does not come up.
    """
    with running_lab(names, model_host) as lab:
        if name in lab.hosts or not NAME.fullmatch(name):
            message = f"cannot add host {name!r} to lab {lab.lab}"
            hint = f"The name must match {NAME.pattern} and differ from {' '.join(lab.hosts)}."
            raise LabError(message, hint)
        octet = free_octet(lab)
        entry = lab.hosts[model_host] | {
            "octet": octet,
            "address": network.address(lab.network, octet),
        }
        _remove_objects(names, name, octet)
        key = _create(names, name, entry, lab)
        keys = state.read_host_keys(names) | {name: (entry["address"], key)}
        state.write_ssh_files(names, keys)
        state.save(names, _with_host(lab, name, entry, model_host))


def remove(names: Names, name: str) -> None:
    """Remove a host that ``add`` created.

    Raises:
        LabError: If the lab has no host of this name, or an object of the host cannot be removed.
    """
    with running_lab(names, name) as lab:
        state.save(names, _without_host(lab, name))
        keys = state.read_host_keys(names)
        keys.pop(name, None)
        state.write_ssh_files(names, keys)
        _remove_objects(names, name, lab.hosts[name]["octet"])


def free_octet(lab: state.State) -> int:
    """Return the lowest octet from FIRST_ADDED to LAST_ADDED that no host of the lab has.

    Raises:
        LabError: If hosts have all these octets.
    """
    used_octets = {entry["octet"] for entry in lab.hosts.values()}
    for octet in range(network.FIRST_ADDED, network.LAST_ADDED + 1):
        if octet not in used_octets:
            return octet
    message = f"could not add a host to lab {lab.lab}: all addresses of added hosts are in use"
    raise LabError(message, "Remove a host that was added: `lab.py remove NAME`.")


def _create(names: Names, name: str, entry: dict[str, Any], lab: state.State) -> str:
    """Create a host from its entry of the state file and return its public host key."""
    placed_host = host.PlacedHost(
        name=name,
        octet=entry["octet"],
        address=entry["address"],
        cgroup_setup=cgroup_setup_of(names, name, entry),
    )
    layers = tuple(map(image.Layer.of, lab.image))
    public_key = (names.state_folder / "id_ed25519.pub").read_text()
    key = create_host(names, placed_host, lab.network, image.lowerdir(layers), public_key)
    wait_for_ssh(names, {name: placed_host.address})
    return key


def _with_host(lab: state.State, name: str, entry: dict[str, Any], model_host: str) -> state.State:
    """Return the state with an additional host in the groups of ``model_host``."""
    members = {}
    for group, hosts in lab.members.items():
        members[group] = [*hosts, name] if model_host in hosts else hosts
    return dataclasses.replace(lab, hosts=lab.hosts | {name: entry}, members=members)


def _without_host(lab: state.State, name: str) -> state.State:
    members = {}
    for group, hosts in lab.members.items():
        members[group] = [host_name for host_name in hosts if host_name != name]
    hosts = dict(lab.hosts)
    del hosts[name]
    return dataclasses.replace(lab, hosts=hosts, members=members)


def _remove_objects(names: Names, name: str, octet: int) -> None:
    host.cut_power(names, name)
    network.disconnect(names, octet)
    cgroup_folders = [folder / name for folder in cgroups.folders_of(names.prefix)]
    if not wait_until_false(lambda: bool(cgroups.remove(cgroup_folders)), seconds=KILL_S):
        message = f"could not remove cgroups of {name}"
        raise LabError(message)
    host.unmount_all(names.host_folder(name))
    host.remove_folder(names.host_folder(name))
