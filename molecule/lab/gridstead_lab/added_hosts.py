# SPDX-License-Identifier: Apache-2.0
"""A standing lab gets another host, or loses one that it got.

The state file speaks of a host only while it is complete: it is named last and forgotten first.
What a killed run leaves is removed by the next one for the same name, or by ``down``.
"""

import dataclasses

from gridstead_lab import cgroups, host, image, network, state
from gridstead_lab.errors import LabError
from gridstead_lab.lifecycle import make, recipe_of, running_lab, wait_for_ssh
from gridstead_lab.names import Names
from gridstead_lab.processes import wait_gone
from gridstead_lab.topology import NAME

KILL_S = 10.0


def add(names: Names, name: str, like: str) -> None:
    """Make another host with the groups and limits of one that is there; it answers on its ssh
    port.

    Raises:
        LabError: The name is taken or not allowed, the lab is not up, or the host does not come up.
    """
    with running_lab(names, like) as now:
        if name in now.hosts or not NAME.fullmatch(name):
            message = f"cannot add host {name!r} to lab {now.lab}"
            raise LabError(
                message, f"It must match {NAME.pattern} and be none of {' '.join(now.hosts)}."
            )
        octet = max(network.FIRST_ADDED - 1, *(one["octet"] for one in now.hosts.values())) + 1
        one = now.hosts[like] | {"octet": octet, "address": network.address(now.network, octet)}
        _remove_pieces(names, name, octet)
        place = host.Place(
            name=name, octet=octet, address=one["address"], recipe=recipe_of(names, name, one)
        )
        layers = tuple(image.Layer.of(layer) for layer in now.image)
        public_key = (names.state / "id_ed25519.pub").read_text()
        key = make(names, place, now.network, image.lowerdir(layers), public_key)
        wait_for_ssh({name: place.address})
        members = {
            group: [*hosts, name] if like in hosts else hosts
            for group, hosts in now.members.items()
        }
        state.write_ssh_files(names, state.read_host_keys(names) | {name: (place.address, key)})
        state.save(names, dataclasses.replace(now, hosts=now.hosts | {name: one}, members=members))


def remove(names: Names, name: str) -> None:
    """Remove a host that was added.

    Raises:
        LabError: There is none of this name, or something of it stays.
    """
    with running_lab(names, name) as now:
        hosts = {other: one for other, one in now.hosts.items() if other != name}
        members = {
            group: [one for one in listed if one != name] for group, listed in now.members.items()
        }
        state.save(names, dataclasses.replace(now, hosts=hosts, members=members))
        keys = state.read_host_keys(names)
        state.write_ssh_files(names, {other: key for other, key in keys.items() if other != name})
        _remove_pieces(names, name, now.hosts[name]["octet"])


def _remove_pieces(names: Names, name: str, octet: int) -> None:
    host.cut_power(names, name)
    network.disconnect(names, octet)
    groups = [folder / name for folder in cgroups.folders_of(names.prefix)]
    if not wait_gone(lambda: bool(cgroups.remove(groups)), seconds=KILL_S):
        message = f"could not remove cgroups of {name}"
        raise LabError(message)
    host.unmount_below(names.host(name))
    host.remove_folder(names.host(name))
