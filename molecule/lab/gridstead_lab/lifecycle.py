# SPDX-License-Identifier: Apache-2.0
"""A lab goes up and down.

Up is complete or not there: the state file comes last, and an ``up`` that finds pieces without it
removes them first. Down looks for objects by the lab's prefix and needs no file, so it is right
after a kill at any moment, and silent when there is nothing.
"""

import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gridstead_lab import cgroups, host, image, inputs, limits, network, processes, state
from gridstead_lab.errors import LabError
from gridstead_lab.image import Say
from gridstead_lab.locks import held
from gridstead_lab.names import Names
from gridstead_lab.teardown import stop_drivers, tear_down
from gridstead_lab.topology import Host, Topology

BOOT_S = 180.0  # two seconds on a quiet machine, minutes on one that is busy


def up(names: Names, topology: Topology, say: Say) -> None:
    """Bring a lab up: every host of the topology answers on its ssh port.

    Does nothing if it is up; starts hosts that were killed.

    Raises:
        LabError: If the lab is up with another topology, a host does not come up, or the prefix
            is another lab's: nothing was changed then.
    """
    _refuse_strangers(names)
    with held(names.prefix, lambda: say("waiting for another run of this lab")):
        now = state.load(names)
        if now is None or not _is_intact(names, now):
            _build(names, topology, say)
            return
        if now.topology != topology.digest():
            message = f"lab {names.lab} is up from another topology, with {' '.join(now.hosts)}"
            raise LabError(message, "Take it down first, or choose another name with --lab.")
        running = processes.nspawns(names)
        for name in sorted(set(now.hosts) - set(running)):
            say(f"starting {name}")
            _start(names, now, name)
        wait_for_ssh({name: one["address"] for name, one in now.hosts.items()})
        say(f"lab {names.lab} is up: {' '.join(now.hosts)}")
        wanted = image.layers(inputs.look(names.checkout), plain=topology.image == "plain")
        if now.image != [layer.name for layer in wanted]:
            say("the image has changed since; take the lab down and up to use the new one")


def down(names: Names, say: Say) -> None:
    """Remove every trace of a lab. Silent if there is none.

    Guarantee: on return no process, mount, namespace, interface, nftables table, cgroup or folder
    with the lab's prefix is left. Nothing else was touched.
    """
    _refuse_strangers(names)
    stop_drivers(names)
    with held(names.prefix):
        began = time.monotonic()
        if tear_down(names):
            say(f"lab {names.lab} is down ({time.monotonic() - began:.1f} s)")
        limits.give_back()


def kill(names: Names, name: str) -> None:
    """End a host like a power cut: its cable goes silent first, then all its processes end."""
    with running_lab(names, name) as now:
        network.set_cable(names, now.hosts[name]["octet"], plugged=False)
        host.cut_power(names, name)


def start(names: Names, name: str) -> None:
    """Start a killed host again, with its disk as it was, and wait for its ssh port."""
    with running_lab(names, name) as now:
        if name not in processes.nspawns(names):
            _start(names, now, name)
        wait_for_ssh({name: now.hosts[name]["address"]})


def status(names: Names) -> dict[str, object]:
    """Return what a lab is: its state and, per host, whether it runs and its memory in MiB."""
    now = state.load(names)
    if now is None:
        return {"lab": names.lab, "prefix": names.prefix, "up": False, "hosts": {}}
    running = processes.nspawns(names)
    hosts = {
        name: one
        | {
            "running": name in running,
            "memory_used_mb": cgroups.memory_used_mb(names.prefix, name),
        }
        for name, one in now.hosts.items()
    }
    return {
        "lab": names.lab, "prefix": names.prefix, "up": True, "network": now.network,
        "gateway": now.gateway, "cgroup": now.cgroup, "image": now.image, "hosts": hosts,
    }  # fmt: skip


def _build(names: Names, topology: Topology, say: Say) -> None:
    tear_down(names)
    layers = image.ensure(inputs.look(names.checkout), names, say, plain=topology.image == "plain")
    began = time.monotonic()
    say(f"making {len(topology.hosts)} hosts")
    names.run.mkdir(parents=True)
    limits.make_room()
    names.owner.write_text(_owner(names))
    public_key = state.make_folder(names)
    subnet = _make_network(names, topology)
    trees, machine = cgroups.look()
    places = [
        host.Place(
            name=one.name,
            octet=network.FIRST_HOST + index,
            address=network.address(subnet, network.FIRST_HOST + index),
            recipe=cgroups.recipe(trees, machine, names.prefix, one),
        )
        for index, one in enumerate(topology.hosts)
    ]
    lowerdir = image.lowerdir(layers)
    with ThreadPoolExecutor(max_workers=4) as workers:
        keys = workers.map(lambda place: make(names, place, subnet, lowerdir, public_key), places)
        made = {place.name: (place.address, key) for place, key in zip(places, keys, strict=True)}
    state.write_ssh_files(names, made)
    wait_for_ssh({name: address for name, (address, _) in made.items()})
    state.save(names, _state(names, topology, subnet, layers, places))
    seconds = time.monotonic() - began
    say(f"lab {names.lab} is up in {seconds:.1f} s: {' '.join(topology.names())}")


def _owner(names: Names) -> str:
    return f"lab {names.lab} of {names.checkout}"


def _refuse_strangers(names: Names) -> None:
    """Refuse to work on another lab whose prefix happens to be the same: one chance in 65,536."""
    try:
        owner = names.owner.read_text()
    except FileNotFoundError:
        return
    if owner not in {"", _owner(names)}:
        message = f"prefix {names.prefix} belongs to {owner}"
        raise LabError(message, "Choose another name with --lab.")


def _is_intact(names: Names, now: state.State) -> bool:
    """Return whether the kernel still has what the state speaks of; not so after a reboot."""
    mounted = host.mounts_below(names.run)
    return all(str(names.root(name)) in mounted for name in now.hosts)


def _make_network(names: Names, topology: Topology) -> str:
    # One lab at a time, or two could find the same subnet free.
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
    return state.State(
        lab=names.lab,
        prefix=names.prefix,
        topology=topology.digest(),
        network=subnet,
        gateway=network.address(subnet, network.GATEWAY),
        cgroup=places[0].recipe.version,
        image=[layer.name for layer in layers],
        groups={name: list(children) for name, children in topology.groups},
        members=topology.members(),
        hosts={
            one.name: {
                "address": place.address,
                "octet": place.octet,
                "groups": list(one.groups),
                "memory_mb": one.memory_mb,
                "cores": one.cores,
                "job_cgroups": one.job_cgroups,
            }
            for one, place in zip(topology.hosts, places, strict=True)
        },
    )


def recipe_of(names: Names, name: str, one: dict[str, Any]) -> cgroups.Recipe:
    """Return the control groups of a host that the state file describes."""
    trees, machine = cgroups.look()
    asked = Host(
        name=name,
        groups=tuple(one["groups"]),
        memory_mb=one["memory_mb"],
        cores=one["cores"],
        job_cgroups=one["job_cgroups"],
    )
    return cgroups.recipe(trees, machine, names.prefix, asked)


def _start(names: Names, now: state.State, name: str) -> None:
    one = now.hosts[name]
    recipe = recipe_of(names, name, one)
    network.set_cable(names, one["octet"], plugged=True)
    host.boot(
        names, host.Place(name=name, octet=one["octet"], address=one["address"], recipe=recipe)
    )


def make(names: Names, place: host.Place, subnet: str, lowerdir: str, public_key: str) -> str:
    """Make a host and let it boot; return its public host key."""
    host.mount_root(names, place.name, lowerdir)
    key = host.give_identity(names, place, public_key)
    network.connect(names, place.name, subnet, place.octet)
    host.boot(names, place)
    return key


def wait_for_ssh(addresses: dict[str, str]) -> None:
    """Wait until each of these hosts, by name, answers on its ssh port.

    Raises:
        LabError: One does not in time.
    """
    waiting, end = dict(addresses), time.monotonic() + BOOT_S
    while waiting:
        waiting = {name: where for name, where in waiting.items() if not _answers(where)}
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
    """Keep other runs from a lab in the body, which gets its state.

    Raises:
        LabError: It is not up, or has no host of this name.
    """
    with held(names.prefix):
        now = state.load(names)
        if now is None:
            message = f"lab {names.lab} is not up"
            raise LabError(message)
        if name not in now.hosts:
            message = f"lab {names.lab} has no host {name}"
            raise LabError(message, f"Its hosts are {' '.join(now.hosts)}.")
        yield now
