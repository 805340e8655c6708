# SPDX-License-Identifier: Apache-2.0
"""The network of a lab: a bridge, an unused /24, and a namespace and a veth pair for each host.

The hosts can reach each other and the machine, which has address .1. There is no route to the
internet, so a role that needs the internet always fails.
"""

import ipaddress
import json
from collections.abc import Iterable

from gridstead_lab import commands
from gridstead_lab.errors import LabError
from gridstead_lab.names import Names

# Few machines use the middle of 10/8, so 10.64.0.0/10 is the first pool. The other pools are for
# machines with a VPN that routes all of 10/8.
POOLS = ("10.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
FIRST_HOST = 11
FIRST_ADDED = 240
LAST_ADDED = 254  # 255 is the broadcast address of a /24
GATEWAY = 1


def choose_subnet(seed: str, used: Iterable[str]) -> str:
    """Return a /24 that overlaps no network in use. The same arguments yield the same /24.

    Args:
        seed: The lab's prefix. Its last four hex digits determine where the search starts.
        used: The result of ``in_use``: addresses and networks. Default routes and IPv6 addresses
            are ignored.

    Raises:
        LabError: If every /24 of the pools overlaps a network in use.
    """
    used_networks = [net for net in map(_network, used) if net is not None and net.prefixlen > 0]
    start = int(seed[-4:], 16)
    for pool in map(ipaddress.IPv4Network, POOLS):
        count = 2 ** (24 - pool.prefixlen)
        for step in range(count):
            index = (start + step) % count
            first_address = int(pool.network_address) + index * 256
            candidate = ipaddress.IPv4Network((first_address, 24))
            if not any(candidate.overlaps(net) for net in used_networks):
                return str(candidate)
    message = "no free /24 in private address space"
    raise LabError(message, 'Name one in the topology file: "network": "10.1.2.0/24".')


def address(network: str, octet: int) -> str:
    """Return the address in a /24 network whose last octet is ``octet``."""
    return str(ipaddress.IPv4Network(network).network_address + octet)


def subnet_of_added_hosts(network: str) -> str:
    """Return the part of a lab's network that is reserved for hosts added to a running lab."""
    return f"{address(network, FIRST_ADDED)}/28"


def in_use() -> list[str]:
    """Return this machine's addresses, route destinations, gateways and name servers."""
    routes = json.loads(commands.run(["ip", "-4", "-j", "route", "show", "table", "all"]))
    links = json.loads(commands.run(["ip", "-4", "-j", "address"]))
    used = []
    for route in routes:
        used.append(route["dst"])
        if "gateway" in route:
            used.append(route["gateway"])
    for link in links:
        for entry in link.get("addr_info", ()):
            local = f"{entry['local']}/{entry['prefixlen']}"
            used.append(local)
    with open("/etc/resolv.conf") as lines:  # noqa: PTH123
        for line in lines:
            if line.startswith("nameserver "):
                _, server, *_ = line.split()
                used.append(server)
    return used


def create_bridge(names: Names, network: str) -> None:
    """Create the lab's bridge with the machine's address."""
    lines = (
        f"link add {names.bridge} type bridge forward_delay 0",
        f"address add {address(network, GATEWAY)}/24 dev {names.bridge}",
        f"link set {names.bridge} up",
    )
    commands.run(["ip", "-batch", "-"], text="\n".join(lines) + "\n")


def connect(names: Names, host: str, network: str, octet: int) -> None:
    """Create the network namespace of a host, with ``eth0`` and the host's address."""
    namespace = names.host_folder(host) / "netns"
    namespace.touch()
    commands.run(["unshare", f"--net={namespace}", "true"])
    veth = names.veth(octet)
    commands_outside = (
        f"link add {veth} type veth peer name eth0 netns {namespace}",
        f"link set {veth} master {names.bridge} up",
    )
    commands.run(["ip", "-batch", "-"], text="\n".join(commands_outside) + "\n")
    commands_inside = (
        f"address add {address(network, octet)}/24 dev eth0",
        "link set eth0 up",
        "link set lo up",
    )
    commands.run(
        ["nsenter", f"--net={namespace}", "ip", "-batch", "-"],
        text="\n".join(commands_inside) + "\n",
    )


def disconnect(names: Names, octet: int) -> None:
    """Remove a host's veth pair if it exists."""
    if names.veth(octet) in interfaces(names.prefix):
        commands.run(["ip", "link", "delete", names.veth(octet)])


def set_cable(names: Names, octet: int, *, plugged: bool) -> None:
    """Set the end of a host's veth pair that is in the machine up or down."""
    commands.run(["ip", "link", "set", names.veth(octet), "up" if plugged else "down"])


def interfaces(prefix: str) -> list[str]:
    """Return the machine's interfaces with a lab's prefix, veths first, bridge last."""
    links = json.loads(commands.run(["ip", "-j", "link"]))
    names = []
    for link in links:
        name = link["ifname"]
        if name.startswith(prefix):
            names.append(name)
    # False sorts before True, so the bridge is last.
    return sorted(names, key=lambda name: (name == f"{prefix}br", name))


def tables(prefix: str) -> list[tuple[str, str]]:
    """Return the nftables tables with a lab's prefix as pairs (family, name)."""
    listing = json.loads(commands.run(["nft", "-j", "list", "tables"]))
    result = []
    for item in listing["nftables"]:
        table = item.get("table")
        if table is not None and table["name"].startswith(prefix):
            result.append((table["family"], table["name"]))
    return result


def remove(prefix: str) -> None:
    """Remove the interfaces and nftables tables with a lab's prefix."""
    for name in interfaces(prefix):
        commands.run(["ip", "link", "delete", name])
    for family, name in tables(prefix):
        commands.run(["nft", "delete", "table", family, name])


def _network(text: str) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(text, strict=False)
    except ValueError:  # the text is not an IPv4 network: "default", an IPv6 address or a name
        return None
