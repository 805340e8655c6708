# SPDX-License-Identifier: Apache-2.0
"""A CVMFS server over HTTP: a Stratum 0, or a replica that a client reads from.

Rule 1: the size and the duration of every answer are limited. Rule 2: redirects are not followed,
and proxies from the environment are not used. The callers check the content.
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

BACKOFF_S = 0.5  # the wait before attempt n + 1 is this time multiplied by 2**n
MIN_BYTES_PER_S = 1024  # an answer may take timeout_s plus the time for its bytes at this rate
NO_CACHE_HEADERS = {"Cache-Control": "no-cache", "Pragma": "no-cache"}
MISSING_STATUS_CODES = (403, 404, 410)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits of the requests to a server.

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
    """A repository on a server. Implements port ``Upstream``.

    Args:
        url: The URL of the repository, without a slash at the end.
        limits: The limits of the requests.
        tls: The trusted certificates for an HTTPS URL.
        wait: Waits for a number of seconds between two attempts.
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

    def fetch_file(self, path: str) -> bytes:
        """Return a small file. Caches on the way must revalidate it."""
        return self._request_with_retries(
            path, b"".join, limit=MAX_SIGNED_FILE_BYTES, bypass_caches=True
        )

    def fetch_object(self, name: ObjectName, consume: Callable[[Iterable[bytes]], T]) -> T:
        """Pass the bytes of an object to ``consume``."""
        limit = self._limits.object_bytes
        try:
            return self._request_with_retries(name.path, consume, limit=limit, bypass_caches=False)
        except RepositoryUntrusted:  # A cache on the way may have altered the object.
            return self._request_with_retries(name.path, consume, limit=limit, bypass_caches=True)

    def _request_with_retries(
        self, path: str, consume: Callable[[Iterable[bytes]], T], *, limit: int, bypass_caches: bool
    ) -> T:
        for attempt in range(1, self._limits.attempts):
            try:
                return self._request(path, consume, limit=limit, bypass_caches=bypass_caches)
            except RepositoryUnavailable:
                self._wait(BACKOFF_S * 2**attempt)
        return self._request(path, consume, limit=limit, bypass_caches=bypass_caches)

    def _request(
        self, path: str, consume: Callable[[Iterable[bytes]], T], *, limit: int, bypass_caches: bool
    ) -> T:
        headers = NO_CACHE_HEADERS if bypass_caches else {}
        url = f"{self._url}/{path}"
        with (
            _http_errors_translated(url),
            self._client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code in MISSING_STATUS_CODES:
                raise RepositoryIncomplete(
                    f"{url} does not exist", detail=f"status {response.status_code}"
                )
            if response.status_code != httpx.codes.OK:
                raise RepositoryUnavailable(
                    f"could not fetch {url}", detail=f"status {response.status_code}"
                )
            return consume(self._limited_pieces(response, url, limit))

    def _limited_pieces(self, response: httpx.Response, url: str, limit: int) -> Iterator[bytes]:
        """Yield the pieces of an answer while it is within the limits of size and time."""
        start_s, size = time.monotonic(), 0
        for piece in response.iter_raw():
            size += len(piece)
            if size > limit:
                raise RepositoryUntrusted(f"{url} is too large", detail=f"more than {limit} bytes")
            max_duration_s = self._limits.timeout_s + size / MIN_BYTES_PER_S
            if time.monotonic() - start_s > max_duration_s:
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
