# SPDX-License-Identifier: Apache-2.0
"""How often one caller is answered, by its address; an IPv6 caller is its network of 64 bits.

Behind a proxy that hides addresses all callers are one.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import unquote

from gridstead.errors import TooMuch

MAX_PEERS = 20_000
IPV6_PREFIX = 64


class PeerLimit:
    """So much a second for each caller, and as much at once as it has not used for some seconds.

    Args:
        per_s: How much a second.
        burst: How much at once.
        what: What is counted, for the refusal.
        now: A clock that never goes back, seconds.
    """

    def __init__(self, *, per_s: float, burst: float, what: str, now: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._what = what
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # at that time so much was left
        self._lock = threading.Lock()

    def take(self, peer: str, amount: float = 1.0) -> None:
        """Count so much for a caller.

        Raises:
            TooMuch: It has no more; nothing is counted.
        """
        now = self._now()
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
            raise TooMuch("too many requests", detail=detail, hint=f"Try again in {max(1, round(wait_s))} s.")


def to_peer(host: str) -> str:
    """Return who a caller is, from its IP address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))
    return str(address)


def grpc_peer(peer: str) -> str:
    """Return who a caller is, from what gRPC says: ``ipv4:1.2.3.4:5`` or ``ipv6:%5B::1%5D:5``."""
    _, _, rest = unquote(peer).partition(":")
    return to_peer(rest.rpartition(":")[0].strip("[]"))
