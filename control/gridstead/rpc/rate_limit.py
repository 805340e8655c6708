# SPDX-License-Identifier: Apache-2.0
"""Rate limits per caller. A caller is identified by its IPv4 address or its IPv6 /64 network.

A trusted proxy reports the address of the caller in X-Forwarded-For. All callers behind a proxy
that is not trusted count as one caller.
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

from gridstead.errors import LimitExceeded

MAX_CALLERS = 20_000
IPV6_PREFIX = 64
FORWARDED_HEADER = "x-forwarded-for"

Network: TypeAlias = IPv4Network | IPv6Network


class RemoteCaller(NamedTuple):
    """The peer address of a connection, and the X-Forwarded-For values of a request, in order."""

    host: str
    forwarded: tuple[str, ...] = ()


class RateLimiter:
    """A token bucket for each caller.

    Args:
        per_s: Number of tokens that are added to a bucket per second.
        burst: Maximum number of tokens in a bucket.
        subject: What is limited, for the error message, such as ``calls``.
        proxies: Networks of trusted proxies.
        now: A monotonic clock, seconds.
    """

    def __init__(
        self, *, per_s: float, burst: float, subject: str,
        proxies: tuple[Network, ...] = (), now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._rate_per_s = per_s
        self._burst = burst
        self._subject = subject
        self._proxies = proxies
        self._now = now
        # By caller: (time of the last call, tokens left at that time).
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: RemoteCaller, amount: float = 1.0) -> None:
        """Take an amount from a caller's bucket.

        Raises:
            LimitExceeded: If the bucket has too few tokens; nothing is taken.
        """
        now = self._now()
        peer = caller_identity(caller_host(caller, self._proxies))
        with self._lock:
            filled_at, tokens = self._buckets.get(peer, (now, self._burst))
            tokens = min(self._burst, tokens + (now - filled_at) * self._rate_per_s)
            is_allowed = amount <= tokens
            taken_amount = amount if is_allowed else 0
            self._buckets[peer] = (now, tokens - taken_amount)
            self._buckets.move_to_end(peer)
            if len(self._buckets) > MAX_CALLERS:
                self._buckets.popitem(last=False)
        if not is_allowed:
            # If the amount is larger than a bucket, the hint is the time until the bucket is full.
            wait_s = (min(amount, self._burst) - tokens) / self._rate_per_s
            raise LimitExceeded(
                "too many requests",
                detail=f"{self._subject} are limited for each caller",
                hint=f"Try again in {max(1, round(wait_s))} s.",
            )


def caller_host(caller: RemoteCaller, proxies: Iterable[Network]) -> str:
    """Return the address of the caller.

    If the peer is a trusted proxy, the caller is the last address in X-Forwarded-For. If not, the
    peer is the caller.
    """
    if not is_in(caller.host, proxies):
        return caller.host
    _, _, last_address = ",".join(caller.forwarded).rpartition(",")
    return last_address.strip() or caller.host


def is_in(host: str, networks: Iterable[Network]) -> bool:
    """Return whether an address is in one of these networks.

    An IPv4-mapped IPv6 address counts as the IPv4 address.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped_address = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    effective_address = mapped_address or address
    return any(effective_address in network for network in networks)


def caller_identity(host: str) -> str:
    """Return the identity of a caller: its IPv4 address, or its IPv6 network."""
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
    """Return the caller of a gRPC call.

    Args:
        peer: The peer as gRPC writes it: ``ipv4:1.2.3.4:5`` or ``ipv6:%5B::1%5D:5``.
        metadata: The metadata of the call, which may contain X-Forwarded-For.
    """
    _, _, address = unquote(peer).partition(":")
    forwarded = []
    for key, value in metadata:
        if key == FORWARDED_HEADER and isinstance(value, str):
            forwarded.append(value)
    host, _, _ = address.rpartition(":")
    return RemoteCaller(host.strip("[]"), tuple(forwarded))
