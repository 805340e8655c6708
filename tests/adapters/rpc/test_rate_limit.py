# SPDX-License-Identifier: Apache-2.0
"""Tests of the rate limits per caller."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network

import pytest

from gridstead.errors import LimitExceeded
from gridstead.rpc import rate_limit
from gridstead.rpc.rate_limit import (
    RateLimiter,
    RemoteCaller,
    caller_host,
    caller_identity,
    grpc_caller,
)


class Clock:
    """A monotonic clock that the test sets."""

    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def now():
    return Clock()


@pytest.fixture
def limit(now):
    return RateLimiter(per_s=2, burst=4, subject="calls", now=now)


def accepted_call_count(limit, peer, count):
    """Make ``count`` calls of a peer, and return how many of them the limit accepts."""
    accepted_count = 0
    for _ in range(count):
        try:
            limit.take(RemoteCaller(peer))
        except LimitExceeded:
            continue
        accepted_count += 1
    return accepted_count


class TestRateLimiter:
    def test_calls_beyond_the_burst_are_refused(self, limit):
        assert accepted_call_count(limit, "a", 10) == 4

    def test_allowance_grows_with_time_up_to_the_burst(self, limit, now):
        accepted_call_count(limit, "a", 4)
        now.seconds += 1
        assert accepted_call_count(limit, "a", 10) == 2
        now.seconds += 100
        assert accepted_call_count(limit, "a", 10) == 4

    def test_callers_have_separate_limits(self, limit):
        accepted_call_count(limit, "a", 10)

        assert accepted_call_count(limit, "b", 10) == 4

    def test_refusal_contains_the_time_to_wait(self, limit):
        limit.take(RemoteCaller("a"), 4)

        with pytest.raises(LimitExceeded) as caught:
            limit.take(RemoteCaller("a"), 4)

        assert caught.value.hint == "Try again in 2 s."  # 4 calls at 2 calls per second
        assert "calls are limited" in str(caught.value)

    def test_number_of_remembered_callers_is_limited(self, limit, monkeypatch):
        monkeypatch.setattr(rate_limit, "MAX_CALLERS", 3)
        for peer in "abcdefgh":
            limit.take(RemoteCaller(peer))

        assert len(limit._buckets) == 3

    def test_threads_share_the_limit(self, now):
        limit = RateLimiter(per_s=1, burst=100, subject="calls", now=now)
        with ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(accepted_call_count, limit, "a", 50) for _ in range(8)]

        assert sum(future.result() for future in futures) == 100


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("somewhere", "somewhere"),
        ("", ""),
    ],
)
def test_peer_is_an_ipv4_address_or_an_ipv6_network(host, peer):
    assert caller_identity(host) == peer


@pytest.mark.parametrize(
    ("grpc_peer", "host"),
    [
        ("ipv4:192.0.2.1:1234", "192.0.2.1"),
        ("ipv6:%5B2001:db8::1%5D:1234", "2001:db8::1"),
        ("ipv6:[::1]:1234", "::1"),
        ("unix:/run/socket", ""),
    ],
)
def test_caller_is_parsed_from_grpc_peer_and_metadata(grpc_peer, host):
    # The last value is binary, so the parser ignores it: addresses are text.
    metadata = [("user-agent", "x"), ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-for", b"8")]

    assert grpc_caller(grpc_peer, metadata) == RemoteCaller(host, ("192.0.2.7",))


@pytest.mark.parametrize(
    ("host", "forwarded", "caller"),
    [
        ("192.0.2.1", ("198.51.100.7",), "192.0.2.1"),
        ("10.0.0.9", (), "10.0.0.9"),
        ("10.0.0.9", ("",), "10.0.0.9"),
        ("10.0.0.9", ("198.51.100.7",), "198.51.100.7"),
        ("::ffff:10.0.0.9", ("198.51.100.7",), "198.51.100.7"),
        ("10.0.0.9", ("203.0.113.5, 198.51.100.7",), "198.51.100.7"),
        ("10.0.0.9", ("203.0.113.5", "198.51.100.7"), "198.51.100.7"),
    ],
)
def test_caller_behind_a_known_proxy_is_the_last_forwarded_address(host, forwarded, caller):
    """The proxy adds the last address. The caller can forge all earlier addresses."""
    assert caller_host(RemoteCaller(host, forwarded), (ip_network("10.0.0.0/24"),)) == caller


@pytest.fixture
def one_call_limit(now):
    """A limit of one call per caller and second. The proxy 10.0.0.9 is known."""
    return RateLimiter(
        per_s=1, burst=1, subject="calls", proxies=(ip_network("10.0.0.9/32"),), now=now
    )


def test_callers_behind_a_known_proxy_have_separate_limits(one_call_limit):
    one_call_limit.take(RemoteCaller("10.0.0.9", ("198.51.100.7",)))
    one_call_limit.take(RemoteCaller("10.0.0.9", ("198.51.100.8",)))

    with pytest.raises(LimitExceeded):
        one_call_limit.take(RemoteCaller("10.0.0.9", ("198.51.100.7",)))


def test_caller_has_one_limit_with_and_without_a_known_proxy(one_call_limit):
    one_call_limit.take(RemoteCaller("10.0.0.9", ("198.51.100.7",)))

    with pytest.raises(LimitExceeded):
        one_call_limit.take(RemoteCaller("198.51.100.7"))
