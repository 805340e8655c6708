# SPDX-License-Identifier: Apache-2.0
"""Networks of steps: the arguments that start a task in a network namespace, and tunnel settings.

``templates/network.sh`` runs on the node of a task. This module renders its arguments. srun passes
the keys of tunnels to the task on standard input, so no file on the task's node contains the keys
after the step. A line ``--`` ends the settings of each tunnel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_interface

from gridstead.workflow.render.container import maps_to_root
from gridstead.workflow.render.context import RenderContext, all_steps
from gridstead.workflow.render.shell_text import fill, quote
from gridstead.workflow.schema import (
    NetworkInterface,
    StepRun,
    VirtualNetwork,
    Wireguard,
    Workflow,
)
from gridstead.workflow.schema.run import HOST

KEEPALIVE_INTERVAL_S = 20
# The lines that create the directory of private files if the job has no secrets.
CREATE_PRIVATE = (
    'private=$(mktemp -d "${TMPDIR:-/tmp}/gridstead.XXXXXX")\n'
    "trap 'rm -rf -- \"$private\"' EXIT\n\n"
)


def network_secrets(workflow: Workflow) -> Mapping[str, str]:
    """Return the settings of the steps' tunnels, as variables of the job's environment."""
    secrets = {}
    for settings, number in _numbers_of_settings(workflow).items():
        secrets[f"GRIDSTEAD_NETWORK_{number}"] = settings
    return secrets


def tunnel_files(workflow: Workflow) -> Mapping[NetworkInterface, str]:
    """Return the file in ``$private`` of each tunnel that has settings."""
    files: dict[NetworkInterface, str] = {}
    numbers = _numbers_of_settings(workflow)
    vnet_files = _vnet_files(workflow)
    for interface in _interfaces(workflow):
        settings = _tunnel_settings(interface)
        if settings:
            files[interface] = f"network-{numbers[settings]}"
        if interface.vnet:
            files[interface] = vnet_files[interface.vnet.name, interface.vnet.address]
    return files


def _vnet_files(workflow: Workflow) -> Mapping[tuple[str, str], str]:
    """Return the file in ``$private`` for each address of a step, by network name and address."""
    files = {}
    for number, network in enumerate(workflow.virtual_networks, 1):
        for address_number, address in enumerate(_step_addresses(workflow, network), 1):
            files[network.name, address] = f"vnet-{number}-{address_number}"
    return files


def has_namespaces(workflow: Workflow) -> bool:
    """Return whether any step or virtual network needs a network namespace."""
    if has_virtual_networks(workflow):
        return True
    return any(step.run and step.run.network != HOST for step in all_steps(workflow.steps))


def has_virtual_networks(workflow: Workflow) -> bool:
    """Return whether the workflow has virtual networks."""
    return bool(workflow.virtual_networks)


def enter_namespace(run: StepRun, context: RenderContext) -> str:
    """Return the lines of a step that start its task in a network namespace.

    Returns:
        An empty text for the host network.
    """
    if run.network == HOST:
        return ""
    words = [run.network, *map(quote, _ids(run))]
    words += [quote(" ".join(run.dns)), "none"]  # name servers, UDP port for incoming packets
    files = []
    for number, interface in enumerate(run.interfaces):
        words += _options(interface, number)
        file = context.tunnel_files.get(interface)
        if file:
            files.append(f'"$private/{file}"')
    standard_input = f"  exec < <(cat -- {' '.join(files)})\n" if files else ""
    return f'{standard_input}  set -- /bin/bash -c "$in_network" {" ".join(words)} -- "$@"\n'


def _ids(run: StepRun) -> tuple[str, str]:
    """Return the user and the group id in the network namespace. Empty for the customer's own.

    The user ``root`` may change the network. A container with other ids maps them itself.
    """
    if run.container:
        return ("root", "0") if maps_to_root(run) else ("", "")
    group = "" if run.map_gid is None else str(run.map_gid)
    if run.map_uid is None:
        return "", group
    return str(run.map_uid or "root"), group


def virtual_networks(workflow: Workflow) -> str:
    """Return the part of the script that opens the virtual networks."""
    if not workflow.virtual_networks:
        return ""
    calls = []
    for number, network in enumerate(workflow.virtual_networks, 1):
        words = [network.gateway_address, str(ip_interface(network.gateway_address).network)]
        for address in _step_addresses(workflow, network):
            words += [address, _host_address(address)]
        calls.append(f"open_network {number} {' '.join(map(quote, words))} || exit\n")
    return fill("virtual_networks.sh", keepalive=KEEPALIVE_INTERVAL_S, calls="".join(calls))


def _options(interface: NetworkInterface, number: int) -> Iterable[str]:
    """Return the options of the interface with this number, from 0, in the list of a step."""
    if interface.bore:
        yield f"--bore={quote(f'{interface.bore.server},{interface.bore.target_port}')}"
        if interface.bore.secret:
            yield "--token"
    else:
        kind = "vnet" if interface.vnet else "wg"
        yield f"--wireguard={kind}{number}"


def _numbers_of_settings(workflow: Workflow) -> Mapping[str, int]:
    """Return a number for each different text of tunnel settings."""
    numbers: dict[str, int] = {}
    for interface in _interfaces(workflow):
        settings = _tunnel_settings(interface)
        if settings and settings not in numbers:
            numbers[settings] = len(numbers) + 1
    return numbers


def _interfaces(workflow: Workflow) -> Iterator[NetworkInterface]:
    for step in all_steps(workflow.steps):
        if step.run:
            yield from step.run.interfaces


def _tunnel_settings(interface: NetworkInterface) -> str:
    """Return the secret settings of an interface. Empty if the interface has none."""
    if interface.wireguard:
        return "\n".join((*_wireguard(interface.wireguard), "--"))
    if interface.bore and interface.bore.secret:
        return f"{interface.bore.secret}\n--"
    return ""


def _wireguard(tunnel: Wireguard) -> Iterable[str]:
    yield "[Interface]"
    yield f"PrivateKey = {tunnel.private_key}"
    if tunnel.address:
        yield f"Address = {', '.join(tunnel.address)}"
    for peer in tunnel.peers:
        yield "[Peer]"
        yield f"PublicKey = {peer.public_key}"
        if peer.pre_shared_key:
            yield f"PresharedKey = {peer.pre_shared_key}"
        if peer.allowed_ips:
            yield f"AllowedIPs = {', '.join(peer.allowed_ips)}"
        if peer.endpoint:
            yield f"Endpoint = {peer.endpoint}"
        if peer.persistent_keepalive is not None:
            yield f"PersistentKeepalive = {peer.persistent_keepalive}"


def _step_addresses(workflow: Workflow, network: VirtualNetwork) -> list[str]:
    """Return the addresses of all steps in a virtual network, unique and sorted."""
    addresses = set()
    for interface in _interfaces(workflow):
        if interface.vnet and interface.vnet.name == network.name:
            addresses.add(interface.vnet.address)
    return sorted(addresses)


def _host_address(address: str) -> str:
    """Return the network that contains only this address: 10.9.0.2/32 for 10.9.0.2/24."""
    host = ip_interface(address).ip
    return f"{host}/{host.max_prefixlen}"
