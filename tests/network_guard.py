# SPDX-License-Identifier: Apache-2.0
"""Blocks the network in a test process. Only connections to the loopback are allowed.

It uses an audit hook of Python instead of pytest-socket, because an audit hook also detects
attempts in threads, and attempts whose exception the code under test suppresses. It does not detect
programs that a test starts, and libraries that connect in C code (gRPC, libpq).
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest

_CONNECTIONS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_NAME_QUERIES = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
_INTERNET = frozenset({socket.AF_INET, socket.AF_INET6})
_watchers: list[list[str]] = []


class NetworkUsed(OSError):
    """A test tried to use the network. It is an OSError, so that a library closes its socket."""


@contextmanager
def loopback_only() -> Iterator[list[str]]:
    """Refuse connections to other hosts and queries of their names. Yields the list of attempts."""
    _install()
    attempts: list[str] = []
    _watchers.append(attempts)
    try:
        yield attempts
    finally:
        _watchers.remove(attempts)


@pytest.fixture(autouse=True)
def network_attempts():
    """Fail a test that tried to use the network, even if it caught the exception."""
    with loopback_only() as attempts:
        yield attempts
    if attempts:
        pytest.fail(f"a test without a network tried to reach other hosts: {', '.join(attempts)}")


@cache
def _install() -> None:
    sys.addaudithook(_audit)  # It remains until the process ends.


def _audit(event: str, args: tuple) -> None:
    if not _watchers:
        return
    host = _host_of(event, args)
    if host is not None and not _is_loopback(host):
        _watchers[-1].append(f"{event} {host}")
        raise NetworkUsed(f"{event} {host}: only the loopback may be used here")


def _host_of(event: str, args: tuple) -> str | None:
    """Return the host of an event. Returns None if the event has none."""
    if event in _CONNECTIONS:
        connection, address = args
        is_internet = connection.family in _INTERNET and address is not None
        return str(address[0]) if is_internet else None
    if event in _NAME_QUERIES:
        name = args[0].decode() if isinstance(args[0], bytes) else args[0]
        return None if not name or _address(name) else name  # An address needs no query.
    return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    if address is None:
        return host == "localhost"
    # Linux connects 0.0.0.0 to the loopback.
    return address.is_loopback or address.is_unspecified


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
