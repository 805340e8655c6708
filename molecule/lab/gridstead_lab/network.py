# SPDX-License-Identifier: Apache-2.0
"""One bridge per lab, a network namespace and a cable per host, a /24 nobody uses.

Hosts reach each other and the machine (its address is .1); there is no route to the outside, so a
role that needs the internet fails at once instead of working by luck.
"""

import ipaddress
import json
from collections.abc import Iterable

from gridstead_lab import commands
from gridstead_lab.errors import LabError
from gridstead_lab.names import Names

# 10.64.0.0/10 first: few machines use the middle of 10/8. The others are for machines whose
# VPN routes all of 10/8.
POOLS = ("10.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
FIRST_HOST = 11
FIRST_ADDED = 240
GATEWAY = 1


def choose_subnet(seed: str, used: Iterable[str]) -> str:
    """Return a /24 that overlaps nothing in use; the same seed tends to the same one.

    Args:
        seed: The lab's prefix; its hex digits say where the search starts.
        used: Networks and addresses the machine has or routes to; default routes are ignored.

    Raises:
        LabError: If every candidate is taken.
    """
    taken = [net for net in map(_network, used) if net is not None and net.prefixlen > 0]
    start = int(seed[-4:], 16)
    for pool in map(ipaddress.IPv4Network, POOLS):
        count = 2 ** (24 - pool.prefixlen)
        for step in range(count):
            base = int(pool.network_address) + (start + step) % count * 256
            candidate = ipaddress.IPv4Network((base, 24))
            if not any(candidate.overlaps(net) for net in taken):
                return str(candidate)
    message = "no free /24 in private address space"
    raise LabError(message, 'Name one in the topology file: "network": "10.1.2.0/24".')


def address(network: str, octet: int) -> str:
    """Return the address of a network with this last octet."""
    return str(ipaddress.IPv4Network(network).network_address + octet)


def of_added(network: str) -> str:
    """Return the part of a network that hosts get which join a lab that stands."""
    return f"{address(network, FIRST_ADDED)}/28"


def in_use() -> list[str]:
    """Return the networks this machine has addresses in, routes to, or asks names of."""
    routes = json.loads(commands.run(["ip", "-4", "-j", "route", "show", "table", "all"]))
    links = json.loads(commands.run(["ip", "-4", "-j", "address"]))
    found = [route["dst"] for route in routes]
    found += [route["gateway"] for route in routes if "gateway" in route]
    for link in links:
        found += [f"{one['local']}/{one['prefixlen']}" for one in link.get("addr_info", ())]
    with open("/etc/resolv.conf") as lines:  # noqa: PTH123
        found += [line.split()[1] for line in lines if line.startswith("nameserver ")]
    return found


def make_bridge(names: Names, network: str) -> None:
    """Make the lab's bridge with the machine's address on it."""
    lines = (
        f"link add {names.bridge} type bridge forward_delay 0",
        f"address add {address(network, GATEWAY)}/24 dev {names.bridge}",
        f"link set {names.bridge} up",
    )
    commands.run(["ip", "-batch", "-"], text="\n".join(lines) + "\n")


def connect(names: Names, host: str, network: str, octet: int) -> None:
    """Give a host its network namespace with ``eth0`` and its address in it."""
    space = names.host(host) / "netns"
    space.touch()
    commands.run(["unshare", f"--net={space}", "true"])
    veth = names.veth(octet)
    outside = (
        f"link add {veth} type veth peer name eth0 netns {space}",
        f"link set {veth} master {names.bridge} up",
    )
    commands.run(["ip", "-batch", "-"], text="\n".join(outside) + "\n")
    inside = (
        f"address add {address(network, octet)}/24 dev eth0",
        "link set eth0 up",
        "link set lo up",
    )
    commands.run(["nsenter", f"--net={space}", "ip", "-batch", "-"], text="\n".join(inside) + "\n")


def disconnect(names: Names, octet: int) -> None:
    """Remove a host's cable, if it is there."""
    if names.veth(octet) in interfaces(names.prefix):
        commands.run(["ip", "link", "delete", names.veth(octet)])


def set_cable(names: Names, octet: int, *, plugged: bool) -> None:
    """Pull or plug a host's cable."""
    commands.run(["ip", "link", "set", names.veth(octet), "up" if plugged else "down"])


def interfaces(prefix: str) -> list[str]:
    """Return the machine's interfaces that carry a lab's prefix, cables first, bridge last."""
    links = json.loads(commands.run(["ip", "-j", "link"]))
    found = [link["ifname"] for link in links if link["ifname"].startswith(prefix)]
    return sorted(found, key=lambda name: (name == f"{prefix}br", name))


def tables(prefix: str) -> list[tuple[str, str]]:
    """Return (family, name) of nftables tables that carry a lab's prefix."""
    listing = json.loads(commands.run(["nft", "-j", "list", "tables"]))
    found = [item["table"] for item in listing["nftables"] if "table" in item]
    return [(one["family"], one["name"]) for one in found if one["name"].startswith(prefix)]


def remove(prefix: str) -> None:
    """Remove the interfaces and nftables tables that carry a lab's prefix."""
    for name in interfaces(prefix):
        commands.run(["ip", "link", "delete", name])
    for family, name in tables(prefix):
        commands.run(["nft", "delete", "table", family, name])


def _network(text: str) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(text, strict=False)
    except ValueError:  # "default", an IPv6 name server, a name
        return None
