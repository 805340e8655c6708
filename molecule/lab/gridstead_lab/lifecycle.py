# SPDX-License-Identifier: Apache-2.0
"""The commands that bring a lab up, take it down, and stop and start its hosts.

``up`` writes the state file last. If ``up`` finds objects of a lab without a state file, it removes
the objects first. ``down`` finds the objects of a lab by their prefix and needs no file. Therefore
``down`` can remove a lab even if ``up`` was killed at any moment.
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
from gridstead_lab.locks import hold_mutex
from gridstead_lab.names import Names
from gridstead_lab.teardown import kill_programs_of_lab, tear_down
from gridstead_lab.topology import Host, Topology

BOOT_TIMEOUT_S = 180.0  # a boot takes 2 s on an idle machine and minutes on a busy machine


def up(names: Names, topology: Topology, report: Report) -> None:
    """Bring a lab up and wait until every host of the topology answers on its ssh port.

    If the lab is up already, this function starts the killed hosts and changes nothing else.

    Raises:
        LabError: If a host does not come up, the lab is up with another topology, or the prefix
            belongs to another lab. In the last two cases the lab is unchanged.
    """
    _refuse_foreign_lab(names)
    with hold_mutex(names.prefix, lambda: report("waiting for another run of this lab")):
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
        wait_for_ssh(names, {name: entry["address"] for name, entry in lab.hosts.items()})
        report(f"lab {names.lab} is up: {' '.join(lab.hosts)}")
        layers = image.layers(inputs.read_inputs(names.checkout), plain=topology.image == "plain")
        if lab.image != image.layer_names(layers):
            report("the image has changed; take the lab down and up to use the new image")


def down(names: Names, report: Report) -> None:
    """Remove every object of a lab: processes, mounts, network objects, cgroups and folders.

    Prints nothing if the lab has no objects. Objects that are not of the lab do not change.
    """
    _refuse_foreign_lab(names)
    kill_programs_of_lab(names)
    with hold_mutex(names.prefix):
        start_s = time.monotonic()
        if tear_down(names):
            report(f"lab {names.lab} is down ({time.monotonic() - start_s:.1f} s)")
        limits.restore()


def kill(names: Names, name: str) -> None:
    """Cut the power of a host: unplug its network cable, then kill all its processes."""
    with running_lab(names, name) as lab:
        network.set_cable(names, lab.hosts[name]["octet"], plugged=False)
        host.cut_power(names, name)


def start(names: Names, name: str) -> None:
    """Start a killed host with its unchanged disk and wait until its ssh port answers."""
    with running_lab(names, name) as lab:
        if name not in processes.nspawns(names):
            _start(names, lab, name)
        wait_for_ssh(names, {name: lab.hosts[name]["address"]})


def status(names: Names) -> dict[str, object]:
    """Return the state of a lab, with the run state and the memory use (MiB) of each host."""
    lab = state.load(names)
    if lab is None:
        return {"lab": names.lab, "prefix": names.prefix, "up": False, "hosts": {}}
    running_hosts = processes.nspawns(names)
    hosts = {}
    for name, entry in lab.hosts.items():
        memory_used_mb = cgroups.memory_used_mb(names.prefix, name)
        hosts[name] = entry | {"running": name in running_hosts, "memory_used_mb": memory_used_mb}
    return {
        "lab": names.lab, "prefix": names.prefix, "up": True, "network": lab.network,
        "gateway": lab.gateway, "cgroup": lab.cgroup, "image": lab.image, "hosts": hosts,
    }  # fmt: skip


def _build(names: Names, topology: Topology, report: Report) -> None:
    tear_down(names)
    image_inputs = inputs.read_inputs(names.checkout)
    layers = image.ensure(image_inputs, names, report, plain=topology.image == "plain")
    start_s = time.monotonic()
    report(f"making {len(topology.hosts)} hosts")
    names.run_folder.mkdir(parents=True)
    limits.raise_limit()
    names.owner_file.write_text(owner_text(names))
    public_key = state.make_folder(names)
    subnet = _create_network(names, topology)
    placed_hosts = _place_hosts(names, topology, subnet)
    _create_hosts(names, placed_hosts, subnet, image.lowerdir(layers), public_key)
    state.save(names, _new_state(names, topology, subnet, layers, placed_hosts))
    seconds = time.monotonic() - start_s
    report(f"lab {names.lab} is up in {seconds:.1f} s: {' '.join(topology.names())}")


def _place_hosts(names: Names, topology: Topology, subnet: str) -> list[host.PlacedHost]:
    trees, machine = cgroups.read_machine()
    placed_hosts = []
    for octet, topology_host in enumerate(topology.hosts, start=network.FIRST_HOST):
        placed = host.PlacedHost(
            name=topology_host.name,
            octet=octet,
            address=network.address(subnet, octet),
            cgroup_setup=cgroups.setup_of(trees, machine, names.prefix, topology_host),
        )
        placed_hosts.append(placed)
    return placed_hosts


def _create_hosts(
    names: Names, placed_hosts: list[host.PlacedHost], subnet: str, lowerdir: str, public_key: str
) -> None:
    """Create the hosts of a new lab and wait until each host answers on its ssh port."""

    def create(placed: host.PlacedHost) -> str:
        return create_host(names, placed, subnet, lowerdir, public_key)

    with ThreadPoolExecutor(max_workers=4) as workers:
        keys = list(workers.map(create, placed_hosts))
    hosts, addresses = {}, {}
    for placed, key in zip(placed_hosts, keys, strict=True):
        hosts[placed.name] = (placed.address, key)
        addresses[placed.name] = placed.address
    state.write_ssh_files(names, hosts)
    wait_for_ssh(names, addresses)


def owner_text(names: Names) -> str:
    """Return the text of the file that records which lab uses a prefix."""
    return f"lab {names.lab} of {names.checkout}"


def _refuse_foreign_lab(names: Names) -> None:
    """Fail if another lab has the same prefix. Two labs share a prefix in 1 of 65,536 cases."""
    try:
        owner = names.owner_file.read_text()
    except FileNotFoundError:
        return
    if owner not in {"", owner_text(names)}:
        message = f"prefix {names.prefix} belongs to {owner}"
        raise LabError(message, "Choose another name with --lab.")


def _is_intact(names: Names, lab: state.State) -> bool:
    """Return whether the root of every host is still mounted. A reboot unmounts all roots."""
    mounted_folders = host.mount_points(names.run_folder)
    roots = {str(names.root_folder(name)) for name in lab.hosts}
    return roots <= set(mounted_folders)


def _create_network(names: Names, topology: Topology) -> str:
    # The mutex ensures that two labs do not choose the same free subnet.
    with hold_mutex("network"):
        subnet = topology.network or network.choose_subnet(names.prefix, network.in_use())
        network.create_bridge(names, subnet)
    return subnet


def _new_state(
    names: Names,
    topology: Topology,
    subnet: str,
    layers: tuple[image.Layer, ...],
    placed_hosts: list[host.PlacedHost],
) -> state.State:
    hosts = {}
    for topology_host, placed in zip(topology.hosts, placed_hosts, strict=True):
        hosts[topology_host.name] = {
            "address": placed.address,
            "octet": placed.octet,
            "groups": list(topology_host.groups),
            "memory_mb": topology_host.memory_mb,
            "cores": topology_host.cores,
            "job_cgroups": topology_host.job_cgroups,
        }
    return state.State(
        lab=names.lab,
        prefix=names.prefix,
        topology=topology.digest(),
        network=subnet,
        gateway=network.address(subnet, network.GATEWAY),
        cgroup=placed_hosts[0].cgroup_setup.version,
        image=image.layer_names(layers),
        groups={name: list(children) for name, children in topology.groups},
        members=topology.members(),
        hosts=hosts,
    )


def cgroup_setup_of(names: Names, name: str, entry: dict[str, Any]) -> cgroups.CgroupSetup:
    """Return the cgroup setup of a host from its entry of the state file."""
    trees, machine = cgroups.read_machine()
    topology_host = Host(
        name=name,
        groups=tuple(entry["groups"]),
        memory_mb=entry["memory_mb"],
        cores=entry["cores"],
        job_cgroups=entry["job_cgroups"],
    )
    return cgroups.setup_of(trees, machine, names.prefix, topology_host)


def _start(names: Names, lab: state.State, name: str) -> None:
    entry = lab.hosts[name]
    cgroup_setup = cgroup_setup_of(names, name, entry)
    network.set_cable(names, entry["octet"], plugged=True)
    placed_host = host.PlacedHost(
        name=name, octet=entry["octet"], address=entry["address"], cgroup_setup=cgroup_setup
    )
    host.boot(names, placed_host)


def create_host(
    names: Names, placed: host.PlacedHost, subnet: str, lowerdir: str, public_key: str
) -> str:
    """Create and boot a host, and return its public host key."""
    host.mount_root(names, placed.name, lowerdir)
    key = host.give_identity(names, placed, public_key)
    network.connect(names, placed.name, subnet, placed.octet)
    host.boot(names, placed)
    return key


def wait_for_ssh(names: Names, addresses: dict[str, str]) -> None:
    """Wait until each host answers on its ssh port.

    Args:
        names: The lab.
        addresses: The addresses of the hosts, by name.

    Raises:
        LabError: If a host does not answer within BOOT_TIMEOUT_S.
    """
    deadline = time.monotonic() + BOOT_TIMEOUT_S
    unanswered_hosts = _hosts_without_ssh(addresses)
    while unanswered_hosts:
        if time.monotonic() > deadline:
            message = f"no ssh answer after {BOOT_TIMEOUT_S:.0f} s from:"
            for name in unanswered_hosts:
                message += f"\n  {name}, last line of its console: "
                message += host.last_console_line(names, name) or "(empty)"
            hint = f"See {names.run_folder}/hosts/<host>/console.log, or run `lab.py status`."
            raise LabError(message, hint)
        time.sleep(0.05)
        unanswered_hosts = _hosts_without_ssh(unanswered_hosts)


def _hosts_without_ssh(addresses: dict[str, str]) -> dict[str, str]:
    """Return the hosts that do not answer on their ssh port, with their addresses."""
    return {name: address for name, address in addresses.items() if not answers_ssh(address)}


def answers_ssh(address: str) -> bool:
    """Return whether an ssh server answers at an address."""
    try:
        with socket.create_connection((address, state.PORT), timeout=1) as connection:
            return connection.recv(4).startswith(b"SSH")
    except OSError:
        return False


@contextlib.contextmanager
def running_lab(names: Names, name: str) -> Iterator[state.State]:
    """Yield the state of a lab that is up. During the block, other runs on the lab wait.

    Raises:
        LabError: If the lab is not up or has no host of this name.
    """
    with hold_mutex(names.prefix):
        lab = state.load(names)
        if lab is None:
            message = f"lab {names.lab} is not up"
            raise LabError(message)
        if name not in lab.hosts:
            message = f"lab {names.lab} has no host {name}"
            raise LabError(message, f"Its hosts are {' '.join(lab.hosts)}.")
        yield lab
