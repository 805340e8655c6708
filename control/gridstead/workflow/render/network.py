# SPDX-License-Identifier: Apache-2.0
"""Networks of steps: how a task enters one, and what tunnels need to know.

What happens on a task's node is in ``templates/network.sh``; here are only the words that it is
told. Keys go there by srun's input, so that they lie in no file that outlives a step; ``--`` ends
what is for one tunnel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_interface

from gridstead.workflow.render.context import RenderContext, all_steps
from gridstead.workflow.render.shell_text import fill, quote
from gridstead.workflow.schema import (
    Bore,
    NetworkInterface,
    StepRun,
    VirtualNetwork,
    Wireguard,
    Workflow,
)
from gridstead.workflow.schema.run import HOST

KEEPALIVE_S = 20
PRIVATE = 'private=$(mktemp -d "${TMPDIR:-/tmp}/gridstead.XXXXXX")\ntrap \'rm -rf -- "$private"\' EXIT\n\n'


def network_secrets(workflow: Workflow) -> Mapping[str, str]:
    """Return what tunnels of the steps must be told: variables of the job's environment."""
    return {f"GRIDSTEAD_NETWORK_{number}": text for text, number in _numbers(workflow).items()}


def tunnel_files(workflow: Workflow) -> Mapping[NetworkInterface, str]:
    """Return the file of ``$private`` that tells of each tunnel; those that need none are not among
    them.
    """
    numbers = _numbers(workflow)
    ends = {
        (network.name, address): f"vnet-{number}-{end}"
        for number, network in enumerate(workflow.virtual_networks, 1)
        for end, address in enumerate(_ends(workflow, network), 1)
    }
    files = {
        each: f"network-{numbers[text]}" for each in _interfaces(workflow) if (text := _told(each))
    }
    return files | {
        each: ends[each.vnet.name, each.vnet.address] for each in _interfaces(workflow) if each.vnet
    }


def has_namespaces(workflow: Workflow) -> bool:
    """Return whether any step has a network of its own."""
    return any(
        step.run and step.run.network != HOST for step in all_steps(workflow.steps)
    ) or is_networked(workflow)


def is_networked(workflow: Workflow) -> bool:
    """Return whether there are networks among the steps."""
    return bool(workflow.virtual_networks)


def enter(run: StepRun, place: RenderContext) -> str:
    """Return the lines of a step that put its network around the words that start its task; empty
    for the host's.
    """
    if run.network == HOST:
        return ""
    ids = ("", "") if run.container else (run.map_uid, run.map_gid)
    words = [run.network, *(quote("" if number is None else str(number)) for number in ids)]
    words += [
        quote(" ".join(run.dns)),
        "none",
        *(word for each in run.interfaces for word in _option(each)),
    ]
    files = [
        f'"$private/{place.tunnels[each]}"' for each in run.interfaces if each in place.tunnels
    ]
    told = f"  exec < <(cat -- {' '.join(files)})\n" if files else ""
    return f'{told}  set -- /bin/bash -c "$in_network" {" ".join(words)} -- "$@"\n'


def virtual_networks(workflow: Workflow) -> str:
    """Return the part of the script that opens the networks among the steps."""
    if not workflow.virtual_networks:
        return ""
    calls = []
    for number, network in enumerate(workflow.virtual_networks, 1):
        ends = (word for address in _ends(workflow, network) for word in (address, _alone(address)))
        words = (network.gateway_address, str(ip_interface(network.gateway_address).network), *ends)
        calls.append(f"open_network {number} {' '.join(map(quote, words))} || exit\n")
    return fill("virtual_networks.sh", keepalive=KEEPALIVE_S, calls="".join(calls))


def _option(interface: NetworkInterface) -> Iterable[str]:
    if interface.bore:
        yield f"--bore={quote(f'{interface.bore.server},{interface.bore.target_port}')}"
        if interface.bore.secret:
            yield "--token"
    else:
        yield "--wireguard"


def _numbers(workflow: Workflow) -> Mapping[str, int]:
    texts = map(_told, _interfaces(workflow))
    return {text: number for number, text in enumerate(dict.fromkeys(filter(None, texts)), 1)}


def _interfaces(workflow: Workflow) -> Iterator[NetworkInterface]:
    return (each for step in all_steps(workflow.steps) if step.run for each in step.run.interfaces)


def _told(interface: NetworkInterface) -> str:
    if interface.wireguard:
        return "\n".join((*_wireguard(interface.wireguard), "--"))
    return _token(interface.bore) if interface.bore else ""


def _token(bore: Bore) -> str:
    return f"{bore.secret}\n--" if bore.secret else ""


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


def _ends(workflow: Workflow, network: VirtualNetwork) -> list[str]:
    """Return the addresses of a network's ends, each once, in order."""
    ends = (each.vnet for each in _interfaces(workflow) if each.vnet)
    return sorted({end.address for end in ends if end.name == network.name})


def _alone(address: str) -> str:
    end = ip_interface(address).ip
    return f"{end}/{end.max_prefixlen}"
