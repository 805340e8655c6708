# SPDX-License-Identifier: Apache-2.0
"""Bring a lab up, take it down, and stop and start its hosts.

``up`` writes the state file last. An ``up`` that finds parts of a lab without a state file removes
them first. ``down`` finds the objects of a lab by their prefix and needs no file. It is therefore
correct after a kill at any moment, and prints nothing if there is no lab.
"""

import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gridstead_lab import cgroups, host, image, inputs, limits, network, processes, state
from gridstead_lab.errors import LabError
from gridstead_lab.image import Report
from gridstead_lab.locks import held
from gridstead_lab.names import Names
from gridstead_lab.teardown import stop_drivers, tear_down
from gridstead_lab.topology import Host, Topology

BOOT_S = 180.0  # a boot takes two seconds on an idle machine and minutes on a busy machine


def up(names: Names, topology: Topology, report: Report) -> None:
    """Bring a lab up. On return every host of the topology answers on its ssh port.

    Creates nothing if the lab is up; starts hosts that were killed.

    Raises:
        LabError: If a host does not come up, the lab is up with another topology, or the prefix
            belongs to another lab. In the last two cases nothing was changed.
    """
    _refuse_foreign_lab(names)
    with held(names.prefix, lambda: report("waiting for another run of this lab")):
        lab = state.load(names)
        if lab is None or not _is_intact(names, lab):
            _build(names, topology, report)
            return
        if lab.topology != topology.digest():
            message = f"lab {names.lab} is up from another topology, with {' '.join(lab.hosts)}"
            raise LabError(message, "Take it down first, or choose another name with --lab.")
        running = processes.nspawns(names)
        for name in sorted(set(lab.hosts) - set(running)):
            report(f"starting {name}")
            _start(names, lab, name)
        wait_for_ssh({name: entry["address"] for name, entry in lab.hosts.items()})
        report(f"lab {names.lab} is up: {' '.join(lab.hosts)}")
        layers = image.layers(inputs.read_inputs(names.checkout), plain=topology.image == "plain")
        if lab.image != image.layer_names(layers):
            report("the image has changed; take the lab down and up to use the new image")


def down(names: Names, report: Report) -> None:
    """Remove every object of a lab. Print nothing if there is none.

    Guarantee: on return no process, mount, namespace, interface, nftables table, cgroup or folder
    with the lab's prefix exists. Nothing else was changed.
    """
    _refuse_foreign_lab(names)
    stop_drivers(names)
    with held(names.prefix):
        began = time.monotonic()
        if tear_down(names):
            report(f"lab {names.lab} is down ({time.monotonic() - began:.1f} s)")
        limits.restore()


def kill(names: Names, name: str) -> None:
    """Stop a host like a power cut: take its cable down first, then kill all its processes."""
    with running_lab(names, name) as lab:
        network.set_cable(names, lab.hosts[name]["octet"], plugged=False)
        host.cut_power(names, name)


def start(names: Names, name: str) -> None:
    """Start a killed host with its unchanged disk and wait until it answers on its ssh port."""
    with running_lab(names, name) as lab:
        if name not in processes.nspawns(names):
            _start(names, lab, name)
        wait_for_ssh({name: lab.hosts[name]["address"]})


def status(names: Names) -> dict[str, object]:
    """Return the state of a lab and, for each host, whether it runs and its memory use in MiB."""
    lab = state.load(names)
    if lab is None:
        return {"lab": names.lab, "prefix": names.prefix, "up": False, "hosts": {}}
    running = processes.nspawns(names)
    hosts = {}
    for name, entry in lab.hosts.items():
        memory_used_mb = cgroups.memory_used_mb(names.prefix, name)
        hosts[name] = entry | {"running": name in running, "memory_used_mb": memory_used_mb}
    return {
        "lab": names.lab, "prefix": names.prefix, "up": True, "network": lab.network,
        "gateway": lab.gateway, "cgroup": lab.cgroup, "image": lab.image, "hosts": hosts,
    }  # fmt: skip


def _build(names: Names, topology: Topology, report: Report) -> None:
    tear_down(names)
    image_inputs = inputs.read_inputs(names.checkout)
    layers = image.ensure(image_inputs, names, report, plain=topology.image == "plain")
    began = time.monotonic()
    report(f"making {len(topology.hosts)} hosts")
    names.run.mkdir(parents=True)
    limits.raise_limit()
    names.owner.write_text(_owner(names))
    public_key = state.make_folder(names)
    subnet = _make_network(names, topology)
    places = _places(names, topology, subnet)
    _create_hosts(names, places, subnet, image.lowerdir(layers), public_key)
    state.save(names, _state(names, topology, subnet, layers, places))
    seconds = time.monotonic() - began
    report(f"lab {names.lab} is up in {seconds:.1f} s: {' '.join(topology.names())}")


def _places(names: Names, topology: Topology, subnet: str) -> list[host.Place]:
    trees, machine = cgroups.read_machine()
    places = []
    for octet, described in enumerate(topology.hosts, start=network.FIRST_HOST):
        place = host.Place(
            name=described.name,
            octet=octet,
            address=network.address(subnet, octet),
            recipe=cgroups.recipe(trees, machine, names.prefix, described),
        )
        places.append(place)
    return places


def _create_hosts(
    names: Names, places: list[host.Place], subnet: str, lowerdir: str, public_key: str
) -> None:
    """Create the hosts of a new lab and wait until each answers on its ssh port."""

    def create(place: host.Place) -> str:
        return create_host(names, place, subnet, lowerdir, public_key)

    with ThreadPoolExecutor(max_workers=4) as workers:
        keys = list(workers.map(create, places))
    hosts, addresses = {}, {}
    for place, key in zip(places, keys, strict=True):
        hosts[place.name] = (place.address, key)
        addresses[place.name] = place.address
    state.write_ssh_files(names, hosts)
    wait_for_ssh(addresses)


def _owner(names: Names) -> str:
    return f"lab {names.lab} of {names.checkout}"


def _refuse_foreign_lab(names: Names) -> None:
    """Fail if another lab has the same prefix, which has a probability of 1 in 65,536."""
    try:
        owner = names.owner.read_text()
    except FileNotFoundError:
        return
    if owner not in {"", _owner(names)}:
        message = f"prefix {names.prefix} belongs to {owner}"
        raise LabError(message, "Choose another name with --lab.")


def _is_intact(names: Names, lab: state.State) -> bool:
    """Return whether the root of every host is still mounted. After a reboot none is."""
    mounted = host.mounts_below(names.run)
    return all(str(names.root(name)) in mounted for name in lab.hosts)


def _make_network(names: Names, topology: Topology) -> str:
    # The mutex prevents that two labs choose the same free subnet.
    with held("network"):
        subnet = topology.network or network.choose_subnet(names.prefix, network.in_use())
        network.make_bridge(names, subnet)
    return subnet


def _state(
    names: Names,
    topology: Topology,
    subnet: str,
    layers: tuple[image.Layer, ...],
    places: list[host.Place],
) -> state.State:
    hosts = {}
    for described, place in zip(topology.hosts, places, strict=True):
        hosts[described.name] = {
            "address": place.address,
            "octet": place.octet,
            "groups": list(described.groups),
            "memory_mb": described.memory_mb,
            "cores": described.cores,
            "job_cgroups": described.job_cgroups,
        }
    return state.State(
        lab=names.lab,
        prefix=names.prefix,
        topology=topology.digest(),
        network=subnet,
        gateway=network.address(subnet, network.GATEWAY),
        cgroup=places[0].recipe.version,
        image=image.layer_names(layers),
        groups={name: list(children) for name, children in topology.groups},
        members=topology.members(),
        hosts=hosts,
    )


def recipe_of(names: Names, name: str, entry: dict[str, Any]) -> cgroups.Recipe:
    """Return the cgroup recipe of a host from its entry of the state file."""
    trees, machine = cgroups.read_machine()
    described = Host(
        name=name,
        groups=tuple(entry["groups"]),
        memory_mb=entry["memory_mb"],
        cores=entry["cores"],
        job_cgroups=entry["job_cgroups"],
    )
    return cgroups.recipe(trees, machine, names.prefix, described)


def _start(names: Names, lab: state.State, name: str) -> None:
    entry = lab.hosts[name]
    recipe = recipe_of(names, name, entry)
    network.set_cable(names, entry["octet"], plugged=True)
    place = host.Place(name=name, octet=entry["octet"], address=entry["address"], recipe=recipe)
    host.boot(names, place)


def create_host(
    names: Names, place: host.Place, subnet: str, lowerdir: str, public_key: str
) -> str:
    """Create and boot a host; return its public host key."""
    host.mount_root(names, place.name, lowerdir)
    key = host.give_identity(names, place, public_key)
    network.connect(names, place.name, subnet, place.octet)
    host.boot(names, place)
    return key


def wait_for_ssh(addresses: dict[str, str]) -> None:
    """Wait until each host answers on its ssh port. ``addresses`` is name -> address.

    Raises:
        LabError: If a host does not answer within BOOT_S.
    """
    waiting, end = dict(addresses), time.monotonic() + BOOT_S
    while waiting:
        waiting = {name: address for name, address in waiting.items() if not _answers(address)}
        if waiting and time.monotonic() > end:
            message = f"no ssh answer after {BOOT_S:.0f} s from {' '.join(waiting)}"
            raise LabError(message, "See console.log in the host's folder, or run `lab.py status`.")
        if waiting:
            time.sleep(0.05)


def _answers(address: str) -> bool:
    try:
        with socket.create_connection((address, state.PORT), timeout=1) as link:
            return link.recv(4).startswith(b"SSH")
    except OSError:
        return False


@contextlib.contextmanager
def running_lab(names: Names, name: str) -> Iterator[state.State]:
    """Yield the state of a lab that is up, and exclude other runs on it for a ``with`` block.

    Raises:
        LabError: If the lab is not up or has no host of this name.
    """
    with held(names.prefix):
        lab = state.load(names)
        if lab is None:
            message = f"lab {names.lab} is not up"
            raise LabError(message)
        if name not in lab.hosts:
            message = f"lab {names.lab} has no host {name}"
            raise LabError(message, f"Its hosts are {' '.join(lab.hosts)}.")
        yield lab
