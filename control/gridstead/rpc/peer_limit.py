# SPDX-License-Identifier: Apache-2.0
"""How often one caller is answered, by its address; an IPv6 caller is its network of 64 bits.

A proxy of ours is believed whom it names. Behind any other one all callers are one.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from gridstead.errors import TooMuch

MAX_PEERS = 20_000
IPV6_PREFIX = 64
FORWARDED = "x-forwarded-for"

Network: TypeAlias = IPv4Network | IPv6Network


class RemoteCaller(NamedTuple):
    """The host of a connection, and the values of X-Forwarded-For that came over it, in their
    order.
    """

    host: str
    forwarded: tuple[str, ...] = ()


class PeerLimit:
    """So much a second for each caller, and as much at once as it has not used for some seconds.

    Args:
        per_s: How much a second.
        burst: How much at once.
        what: What is counted, for the refusal.
        proxies: Networks of ours, whose hosts say truly for whom they call.
        now: A clock that never goes back, seconds.
    """

    def __init__(
        self, *, per_s: float, burst: float, what: str,
        proxies: tuple[Network, ...] = (), now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._per_s = per_s
        self._burst = burst
        self._what = what
        self._proxies = proxies
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # at that time so much was left
        self._lock = threading.Lock()

    def take(self, caller: RemoteCaller, amount: float = 1.0) -> None:
        """Count so much for a caller.

        Raises:
            TooMuch: It has no more; nothing is counted.
        """
        now = self._now()
        peer = to_peer(behind(caller, self._proxies))
        with self._lock:
            at, left = self._left.get(peer, (now, self._burst))
            left = min(self._burst, left + (now - at) * self._per_s)
            good = amount <= left
            self._left[peer] = (now, left - amount if good else left)
            self._left.move_to_end(peer)
            if len(self._left) > MAX_PEERS:
                self._left.popitem(last=False)
        if not good:
            wait_s = (min(amount, self._burst) - left) / self._per_s
            detail = f"{self._what} are limited for each caller"
            raise TooMuch(
                "too many requests", detail=detail, hint=f"Try again in {max(1, round(wait_s))} s."
            )


def behind(caller: RemoteCaller, proxies: Iterable[Network]) -> str:
    """Return the host that calls: the last one that a proxy of ours names, as it saw it; else the
    connection's.
    """
    if not is_in(caller.host, proxies):
        return caller.host
    return ",".join(caller.forwarded).rpartition(",")[2].strip() or caller.host


def is_in(host: str, networks: Iterable[Network]) -> bool:
    """Return whether an address is in one of these networks; an IPv4 address may be written as one
    of IPv6.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return any((mapped or address) in network for network in networks)


def to_peer(host: str) -> str:
    """Return who a caller is, from its IP address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))
    return str(address)


def grpc_caller(peer: str, metadata: Iterable[tuple[str, str | bytes]]) -> RemoteCaller:
    """Return who calls, from what gRPC says: ``ipv4:1.2.3.4:5`` or ``ipv6:%5B::1%5D:5``, and the
    call's metadata.
    """
    _, _, rest = unquote(peer).partition(":")
    forwarded = tuple(
        value for key, value in metadata if key == FORWARDED and isinstance(value, str)
    )
    return RemoteCaller(rest.rpartition(":")[0].strip("[]"), forwarded)
