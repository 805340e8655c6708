# SPDX-License-Identifier: Apache-2.0
"""Networks of steps: namespaces, tunnels into them and out of them, and networks among the steps of
a job.
"""

from __future__ import annotations

import base64
import binascii
import re
from ipaddress import ip_address, ip_interface, ip_network
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from gridstead.workflow.schema.base import MAX_NAME, Model, Name, shown_as
from gridstead.workflow.schema.container import Word

MAX_PEERS = 64
MAX_ADDRESSES = 64
MAX_PORT = 65535
KEY_BYTES = 32

_KEY = r"[A-Za-z0-9+/]{43}="
_HOST = r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)"
_ENDPOINT = rf"{_HOST}:[0-9]{{1,5}}"
_IP_LIKE = "^[0-9a-fA-F:.]+$"
_CIDR_LIKE = "^[0-9a-fA-F:.]+/[0-9]{1,3}$"


def _ip(value: str) -> str:
    if not re.fullmatch(_IP_LIKE, value):
        raise ValueError("is not an IP address")
    try:
        ip_address(value)
    except ValueError as err:
        raise ValueError("is not an IP address") from err
    return value


def _cidr(value: str) -> str:
    reason = "is not an address with the length of its network, as in 10.0.0.1/24"
    if not re.fullmatch(_CIDR_LIKE, value):
        raise ValueError(reason)
    try:
        ip_interface(value)
    except ValueError as err:
        raise ValueError(reason) from err
    return value


def _key(value: str) -> str:
    try:
        whole = len(base64.b64decode(value, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        whole = False
    if not whole or not re.fullmatch(_KEY, value):
        raise ValueError("is not a key of WireGuard: 32 bytes in base64")
    return value


def _endpoint(value: str) -> str:
    if not re.fullmatch(_ENDPOINT, value) or not 0 < int(value.rpartition(":")[2]) <= MAX_PORT:
        raise ValueError("is not a host with a port, as in vpn.example:51820")
    return value


def _host(value: str) -> str:
    if not re.fullmatch(_HOST, value):
        raise ValueError("is not the name or the address of a host")
    return value


Ip = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_ip), shown_as(pattern=_IP_LIKE)]
Cidr = Annotated[
    str, Field(max_length=MAX_NAME), AfterValidator(_cidr), shown_as(pattern=_CIDR_LIKE)
]
Key = Annotated[str, AfterValidator(_key), shown_as(pattern=f"^{_KEY}$")]
HostPort = Annotated[
    str,
    Field(max_length=MAX_NAME * 2),
    AfterValidator(_endpoint),
    shown_as(pattern=f"^{_ENDPOINT}$"),
]
Host = Annotated[
    str, Field(max_length=MAX_NAME * 2), AfterValidator(_host), shown_as(pattern=f"^{_HOST}$")
]
Port = Annotated[int, Field(ge=1, le=MAX_PORT)]
Cidrs = Annotated[tuple[Cidr, ...], Field(strict=False, max_length=MAX_ADDRESSES)]


class WireguardPeer(Model):
    """The other end of a tunnel."""

    public_key: Key = Field(description="Its public key.")
    pre_shared_key: Key | None = Field(
        default=None, description="A key that both ends know.", repr=False
    )
    allowed_ips: Cidrs = Field(
        default=(),
        alias="allowedIPs",
        description="What is sent to it and taken from it: addresses or networks.",
    )
    endpoint: HostPort | None = Field(default=None, description="Where it is: host and port.")
    persistent_keepalive: Annotated[int, Field(ge=0, le=MAX_PORT)] | None = Field(
        default=None,
        description="Seconds between signs of life, which keep the way through a NAT open.",
    )


class Wireguard(Model):
    """A tunnel of WireGuard. The script does not hold its keys; an old supervisor cannot run the
    job.
    """

    address: Cidrs = Field(
        default=(), description="Addresses of this end, with the lengths of their networks."
    )
    private_key: Key = Field(description="Key of this end.", repr=False)
    peers: Annotated[tuple[WireguardPeer, ...], Field(strict=False, max_length=MAX_PEERS)] = Field(
        default=(), description="Other ends."
    )


class Bore(Model):
    """A port of the step that everybody can reach through a server outside; the job's output says
    where.

    The step's node has the token on the command line of the program that speaks to the server.
    """

    bore_address: HostPort | None = Field(default=None, description="The server: host and port.")
    address: Host | None = Field(
        default=None, description="The server's host. Older than `boreAddress`."
    )
    port: Port | None = Field(default=None, description="The server's port, with `address`.")
    target_port: Port = Field(description="The step's port.")
    secret: Word | None = Field(
        default=None, description="Token of a route at the server.", repr=False
    )

    @model_validator(mode="after")
    def _one_server(self) -> Self:
        if bool(self.bore_address) == bool(self.address) or (self.address is None) != (
            self.port is None
        ):
            raise ValueError("needs boreAddress, or address and port")
        return self

    @property
    def server(self) -> str:
        """Host and port of the server."""
        return self.bore_address or f"{self.address}:{self.port}"


class VNet(Model):
    """An end of a virtual network of the job."""

    name: Name = Field(description="The network, one of `virtualNetworks`.")
    address: Cidr = Field(description="Address of this step in it, with the length of the network.")


class NetworkInterface(Model):
    """One way into or out of a step's network: one of the three."""

    wireguard: Wireguard | None = Field(
        default=None, description="A tunnel; `wg0` and so on, in their order."
    )
    bore: Bore | None = Field(default=None, description="A port that everybody can reach.")
    vnet: VNet | None = Field(
        default=None, description="A network of the job; named like a tunnel."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if sum(each is not None for each in (self.wireguard, self.bore, self.vnet)) != 1:
            raise ValueError("needs one of wireguard, bore and vnet")
        return self


class VirtualNetwork(Model):
    """A network among steps of a job, on whatever nodes they run.

    Its middle is a tunnel on the job's first node, to which the other nodes speak by UDP.
    """

    name: Name = Field(description="Its name.")
    gateway_address: Cidr = Field(
        description="Address of its middle, with the length of the network."
    )

    def holds(self, address: str) -> bool:
        """Return whether an end may have this address."""
        own, other = ip_interface(self.gateway_address), ip_interface(address)
        return other.ip in ip_network(self.gateway_address, strict=False) and other.ip != own.ip
