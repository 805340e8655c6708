# SPDX-License-Identifier: Apache-2.0
"""Networks of steps: network namespaces, tunnels, and virtual networks among the steps of a job."""

from __future__ import annotations

import base64
import binascii
import re
from ipaddress import ip_address, ip_interface, ip_network
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from gridstead.workflow.schema.base import MAX_NAME, Model, Name, schema_rule
from gridstead.workflow.schema.container import Word

MAX_PEERS = 64
MAX_ADDRESSES = 64
MAX_PORT = 65535
KEY_BYTES = 32

_KEY = r"[A-Za-z0-9+/]{43}="
# An IPv6 address in brackets, an IPv4 address, or a host name.
_HOST = r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)"
_ENDPOINT = rf"{_HOST}:[0-9]{{1,5}}"
# JSON Schema checks only the characters of addresses. The functions below check the whole address.
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
    reason = "is not an address with a prefix length, such as 10.0.0.1/24"
    if not re.fullmatch(_CIDR_LIKE, value):
        raise ValueError(reason)
    try:
        ip_interface(value)
    except ValueError as err:
        raise ValueError(reason) from err
    return value


def _key(value: str) -> str:
    try:
        is_key = len(base64.b64decode(value, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        is_key = False
    if not is_key or not re.fullmatch(_KEY, value):
        raise ValueError("is not a WireGuard key: 32 bytes in base64")
    return value


def _endpoint(value: str) -> str:
    if not re.fullmatch(_ENDPOINT, value) or not 0 < int(value.rpartition(":")[2]) <= MAX_PORT:
        raise ValueError("is not a host with a port, such as vpn.example:51820")
    return value


def _host(value: str) -> str:
    if not re.fullmatch(_HOST, value):
        raise ValueError("is not a host name or an IP address")
    return value


Ip = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_ip), schema_rule(pattern=_IP_LIKE)]
Cidr = Annotated[
    str, Field(max_length=MAX_NAME), AfterValidator(_cidr), schema_rule(pattern=_CIDR_LIKE)
]
Key = Annotated[str, AfterValidator(_key), schema_rule(pattern=f"^{_KEY}$")]
HostPort = Annotated[
    str,
    Field(max_length=MAX_NAME * 2),
    AfterValidator(_endpoint),
    schema_rule(pattern=f"^{_ENDPOINT}$"),
]
Host = Annotated[
    str, Field(max_length=MAX_NAME * 2), AfterValidator(_host), schema_rule(pattern=f"^{_HOST}$")
]
Port = Annotated[int, Field(ge=1, le=MAX_PORT)]
Cidrs = Annotated[tuple[Cidr, ...], Field(strict=False, max_length=MAX_ADDRESSES)]


class WireguardPeer(Model):
    """A peer of a WireGuard tunnel."""

    public_key: Key = Field(description="Public key of the peer.")
    pre_shared_key: Key | None = Field(default=None, description="Preshared key.", repr=False)
    allowed_ips: Cidrs = Field(
        default=(),
        alias="allowedIPs",
        description="Addresses or networks that are routed to the peer and accepted from it.",
    )
    endpoint: HostPort | None = Field(default=None, description="Host and port of the peer.")
    persistent_keepalive: Annotated[int, Field(ge=0, le=MAX_PORT)] | None = Field(
        default=None,
        description="Keepalive interval in seconds, which keeps a NAT mapping open.",
    )


class Wireguard(Model):
    """A WireGuard tunnel.

    Its keys are not part of the script. A supervisor that does not support separate secrets, such
    as DeepSquare's, cannot run a job with a tunnel.
    """

    address: Cidrs = Field(default=(), description="Local addresses with their prefix lengths.")
    private_key: Key = Field(description="Private key.", repr=False)
    peers: Annotated[tuple[WireguardPeer, ...], Field(strict=False, max_length=MAX_PEERS)] = Field(
        default=(), description="Peers."
    )


class Bore(Model):
    """A port of the step that is public through a bore server. The job's output shows its address.

    `secret` is not part of the script. A supervisor that does not support separate secrets, such as
    DeepSquare's, cannot run a job with a `secret`.
    """

    bore_address: HostPort | None = Field(
        default=None, description="Host and port of the bore server."
    )
    address: Host | None = Field(
        default=None, description="Host of the bore server. Older alternative to `boreAddress`."
    )
    port: Port | None = Field(
        default=None, description="Port of the bore server, together with `address`."
    )
    target_port: Port = Field(description="Port of the step.")
    secret: Word | None = Field(
        default=None, description="Secret that the bore server requires.", repr=False
    )

    @model_validator(mode="after")
    def _one_server(self) -> Self:
        has_one_address = bool(self.bore_address) != bool(self.address)
        # address and port are valid only together.
        has_valid_port = (self.address is None) == (self.port is None)
        if not has_one_address or not has_valid_port:
            raise ValueError("needs boreAddress, or address and port")
        return self

    @property
    def server(self) -> str:
        """Return the host and port of the server."""
        return self.bore_address or f"{self.address}:{self.port}"


class VNet(Model):
    """The connection of a step to a virtual network of the job."""

    name: Name = Field(description="Name of the network, one of `virtualNetworks`.")
    address: Cidr = Field(description="Address of this step, with the prefix length.")


class NetworkInterface(Model):
    """One interface of a step's network: exactly one of the three fields."""

    wireguard: Wireguard | None = Field(
        default=None,
        description=(
            "A tunnel. Its interface is `wg0` if it is the first in the list, `wg1` if it is the"
            " second, and so on."
        ),
    )
    bore: Bore | None = Field(default=None, description="A public port.")
    vnet: VNet | None = Field(
        default=None,
        description=(
            "A virtual network of the job. Its interface is `vnet0` if it is the first in the list,"
            " `vnet1` if it is the second, and so on."
        ),
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = (self.wireguard, self.bore, self.vnet)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("needs one of wireguard, bore and vnet")
        return self


class VirtualNetwork(Model):
    """A network among steps of a job, on any nodes.

    Its gateway is a WireGuard tunnel on the first node of the job. The other nodes connect to it by
    UDP.
    """

    name: Name = Field(description="Name of the network.")
    gateway_address: Cidr = Field(description="Address of the gateway, with the prefix length.")

    def can_assign(self, address: str) -> bool:
        """Return whether a step may have this address. The gateway has its own address."""
        gateway, other = ip_interface(self.gateway_address), ip_interface(address)
        return other.ip in ip_network(self.gateway_address, strict=False) and other.ip != gateway.ip
