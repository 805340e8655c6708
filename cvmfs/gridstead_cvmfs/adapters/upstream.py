# SPDX-License-Identifier: Apache-2.0
"""A Stratum 0 over HTTP.

Rule 1: the size and the duration of every answer are limited. Rule 2: redirects are not followed,
and proxies from the environment are not used. Rule 3: this module does not check content.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import httpx

from gridstead_cvmfs.domain.objects import ObjectName
from gridstead_cvmfs.domain.signed_files import MAX_SIGNED_FILE_BYTES
from gridstead_cvmfs.errors import RepositoryIncomplete, RepositoryUnavailable, RepositoryUntrusted

FIRST_WAIT_S = 0.5
MIN_BYTES_PER_S = 1024
MISSING_CODES = (403, 404, 410)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits of an answer.

    Attributes:
        timeout_s: The time to connect, and the time between two pieces of an answer.
        object_bytes: The maximum size of an object.
        connections: The maximum number of simultaneous connections.
        attempts: The number of attempts before a server counts as unavailable.
    """

    timeout_s: float
    object_bytes: int
    connections: int
    attempts: int = 3


class HttpUpstream:
    """Implements port ``Upstream``.

    Args:
        url: The URL of the repository, without a slash at the end.
        limits: The limits of an answer.
        tls: The trusted certificates for an HTTPS URL.
        wait: Waits for this number of seconds between attempts.
    """

    def __init__(
        self,
        url: str,
        limits: FetchLimits,
        *,
        tls: ssl.SSLContext,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._url = url.rstrip("/")
        self._limits = limits
        self._wait = wait
        self._client = httpx.Client(
            verify=tls,
            timeout=limits.timeout_s,
            limits=httpx.Limits(max_connections=limits.connections),
            headers={"User-Agent": "gridstead", "Accept-Encoding": "identity"},
            follow_redirects=False,
            trust_env=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def file(self, path: str) -> bytes:
        """Return a small file. Caches in between must revalidate it."""
        return self._attempt(path, b"".join, limit=MAX_SIGNED_FILE_BYTES, fresh=True)

    def fetch(self, name: ObjectName, take: Callable[[Iterable[bytes]], T]) -> T:
        """Pass the bytes of an object to ``take``."""
        limit = self._limits.object_bytes
        try:
            return self._attempt(name.path, take, limit=limit, fresh=False)
        except RepositoryUntrusted:
            return self._attempt(name.path, take, limit=limit, fresh=True)

    def _attempt(
        self, path: str, take: Callable[[Iterable[bytes]], T], *, limit: int, fresh: bool
    ) -> T:
        for attempt in range(1, self._limits.attempts):
            try:
                return self._once(path, take, limit=limit, fresh=fresh)
            except RepositoryUnavailable:
                self._wait(FIRST_WAIT_S * 2**attempt)
        return self._once(path, take, limit=limit, fresh=fresh)

    def _once(
        self, path: str, take: Callable[[Iterable[bytes]], T], *, limit: int, fresh: bool
    ) -> T:
        headers = {"Cache-Control": "no-cache", "Pragma": "no-cache"} if fresh else {}
        url = f"{self._url}/{path}"
        with (
            _http_errors_translated(url),
            self._client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code in MISSING_CODES:
                raise RepositoryIncomplete(
                    f"{url} does not exist", detail=f"status {response.status_code}"
                )
            if response.status_code != httpx.codes.OK:
                raise RepositoryUnavailable(
                    f"could not fetch {url}", detail=f"status {response.status_code}"
                )
            return take(self._bounded(response, url, limit))

    def _bounded(self, response: httpx.Response, url: str, limit: int) -> Iterator[bytes]:
        """Yield the pieces of an answer while it is within the limits of size and time."""
        started, size = time.monotonic(), 0
        for piece in response.iter_raw():
            size += len(piece)
            if size > limit:
                raise RepositoryUntrusted(f"{url} is too large", detail=f"more than {limit} bytes")
            if time.monotonic() - started > self._limits.timeout_s + size / MIN_BYTES_PER_S:
                raise RepositoryUnavailable(
                    f"could not fetch {url} in time", detail=f"{size} bytes received"
                )
            yield piece


@contextmanager
def _http_errors_translated(url: str) -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        detail = str(error) or type(error).__name__
        raise RepositoryUnavailable(f"could not fetch {url}", detail=detail) from error
