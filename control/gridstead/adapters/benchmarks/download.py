# SPDX-License-Identifier: Apache-2.0
"""Downloads the report of a provider's benchmarks.

The provider chooses the URL. So a download is limited in size and time, follows no redirects, sends
nothing but the request, and connects only to public addresses: otherwise a provider could make the
user's machine send requests to other machines of its network. The address is checked on each
connection, after the name was resolved.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpcore

from gridstead.domain.benchmarks.public_report import MAX_BYTES
from gridstead.domain.labels.keys import BENCHMARK_REPORT_URL, is_in_form
from gridstead.errors import InvalidInput, Transient

TIMEOUT_S = 10  # of the whole download, without the resolution of the name
_OK = 200
_HEADERS = [("Accept-Encoding", "identity"), ("User-Agent", "gridstead")]
_HTTP_ERRORS = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol)
_NAT64 = IPv6Network("64:ff9b::/96")  # the last 32 bits are an IPv4 address


def download_report(
    url: str, *, ca: Path | None, allow_private: bool, timeout_s: float = TIMEOUT_S
) -> bytes:
    """Return the file at a URL.

    Args:
        url: ``https://host:port/path``, from the label of a provider.
        ca: The PEM file of a CA that is trusted besides those of the system. None for no such CA.
        allow_private: Whether addresses that are not public are permitted.
        timeout_s: How long the download may take.

    Raises:
        InvalidInput: If the URL or its address is not permitted, or if the file is too large.
        Transient: If the server does not answer in time, or not with the file.
    """
    if not _is_permitted(url):
        raise InvalidInput(f"{url[:80]!r} is not a URL of the form https://host:port/path")
    tls_context = ssl.create_default_context()
    if ca is not None:
        tls_context.load_verify_locations(ca)
    backend = _Backend(_Deadline(timeout_s), allow_private=allow_private)
    try:
        with (
            httpcore.ConnectionPool(ssl_context=tls_context, network_backend=backend) as pool,
            pool.stream("GET", url, headers=_HEADERS) as answer,
        ):
            if answer.status != _OK:
                raise Transient(f"the server answered with status {answer.status}")
            return _read(answer.iter_stream())
    except httpcore.TimeoutException as error:
        raise Transient(f"the server did not answer within {timeout_s} seconds") from error
    except (OSError, *_HTTP_ERRORS) as error:
        raise Transient("could not download the report", detail=str(error)) from error


def _is_permitted(url: str) -> bool:
    """Return whether a URL has the scheme https, a host and no user."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:  # for example, the port is not a number
        return False
    return is_in_form(BENCHMARK_REPORT_URL, url) and has_host and parts.username is None


def is_public(text: str) -> bool:
    """Return whether an IP address belongs to a machine on the public Internet."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        embedded = _embedded(address)
        if embedded is not None:
            address = embedded
    return address.is_global and not address.is_multicast


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address to which packets for an IPv6 address may go. None for no such one."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _read(chunks: Iterable[bytes]) -> bytes:
    file = bytearray()
    for chunk in chunks:
        file += chunk
        if len(file) > MAX_BYTES:
            raise InvalidInput(f"the report has more than {MAX_BYTES} bytes")
    return bytes(file)


class _Deadline:
    """The end of the time of a download."""

    def __init__(self, timeout_s: float) -> None:
        self._end = time.monotonic() + timeout_s

    def remaining_s(self) -> float:
        """Return the remaining time. Raises httpcore.ReadTimeout if there is none."""
        remaining_s = self._end - time.monotonic()
        if remaining_s <= 0:
            raise httpcore.ReadTimeout("the download takes too long")
        return remaining_s


class _Backend(httpcore.NetworkBackend):
    """Connects only to permitted addresses, and limits the time of all operations together."""

    def __init__(self, deadline: _Deadline, *, allow_private: bool) -> None:
        self._deadline = deadline
        self._allow_private = allow_private
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the deadline replaces it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Return a connection to the first address of a host that answers.

        Raises:
            InvalidInput: If one of its addresses is not permitted.
        """
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(info[4][0]) for info in infos]
        for address in addresses:
            if not self._allow_private and not is_public(address):
                raise InvalidInput(f"{host} has the address {address}, which is not public")
        for address in addresses[:-1]:
            with suppress(httpcore.ConnectError):  # the next address may answer
                return self._connect(address, port, local_address, socket_options)
        return self._connect(addresses[-1], port, local_address, socket_options)

    def _connect(
        self,
        address: str,
        port: int,
        local_address: str | None,
        socket_options: Iterable[Any] | None,
    ) -> httpcore.NetworkStream:
        stream = self._backend.connect_tcp(
            address,
            port,
            timeout=self._deadline.remaining_s(),
            local_address=local_address,
            socket_options=socket_options,
        )
        return _Stream(stream, self._deadline)


class _Stream(httpcore.NetworkStream):
    """A connection whose operations end at the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: _Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """Read at most so many bytes."""
        return self._stream.read(max_bytes, timeout=self._deadline.remaining_s())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Write all bytes."""
        self._stream.write(buffer, timeout=self._deadline.remaining_s())

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        """Start TLS with the name of the host in the URL."""
        stream = self._stream.start_tls(
            ssl_context, server_hostname=server_hostname, timeout=self._deadline.remaining_s()
        )
        return _Stream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - the type depends on the info
        """Return a property of the connection."""
        return self._stream.get_extra_info(info)
