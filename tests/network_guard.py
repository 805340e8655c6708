# SPDX-License-Identifier: Apache-2.0
"""Blocks the network in a test process. Only connections to the loopback are allowed.

The guard is an audit hook of Python. Unlike pytest-socket, it also detects attempts in threads, and
attempts whose exception the code under test suppresses. It does not detect the connections of
programs that a test starts, or of libraries that connect in C code (gRPC, libpq).
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest

_CONNECTION_EVENTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_NAME_QUERY_EVENTS = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
_INTERNET_FAMILIES = frozenset({socket.AF_INET, socket.AF_INET6})
# The list of attempts of each active guard. The innermost guard is last.
_active_guards: list[list[str]] = []


class NetworkUsed(OSError):
    """A test tried to use the network.

    It is an OSError, so that a library handles it as a failed connection and closes its socket.
    """


@contextmanager
def loopback_only() -> Iterator[list[str]]:
    """Refuse connections to other hosts and queries of names. Yields the list of attempts."""
    _install_hook()
    attempts: list[str] = []
    _active_guards.append(attempts)
    try:
        yield attempts
    finally:
        _active_guards.remove(attempts)


@pytest.fixture(autouse=True)
def network_attempts():
    """Fail a test that tried to use the network, even if it caught the exception."""
    with loopback_only() as attempts:
        yield attempts
    if attempts:
        pytest.fail(f"the test must not use the network, but tried: {', '.join(attempts)}")


@cache
def _install_hook() -> None:
    sys.addaudithook(_audit)  # Python cannot remove an audit hook.


def _audit(event: str, args: tuple) -> None:
    if not _active_guards:
        return
    host = _host_of(event, args)
    if host is not None and not _is_loopback(host):
        _active_guards[-1].append(f"{event} {host}")
        raise NetworkUsed(f"{event} {host}: a test may connect only to the loopback")


def _host_of(event: str, args: tuple) -> str | None:
    """Return the host that an event connects to, or the name that an event resolves, else None."""
    if event in _CONNECTION_EVENTS:
        connection, address = args
        if connection.family not in _INTERNET_FAMILIES or address is None:
            return None
        return str(address[0])
    if event in _NAME_QUERY_EVENTS:
        name = args[0].decode() if isinstance(args[0], bytes) else args[0]
        if not name or _to_address(name):
            return None  # An IP address is not resolved.
        return name
    return None


def _is_loopback(host: str) -> bool:
    address = _to_address(host)
    if address is None:
        return host == "localhost"
    # Linux connects 0.0.0.0 to the loopback.
    return address.is_loopback or address.is_unspecified


def _to_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address that a text contains, or None."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
