# SPDX-License-Identifier: Apache-2.0
"""How often a caller is answered, and what is counted."""

from __future__ import annotations

import threading
from ipaddress import ip_network

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gridstead.errors import TooMuch, Transient
from gridstead.rpc import peer_limit
from gridstead.rpc.metrics import Gauge, Metrics
from gridstead.rpc.peer_limit import PeerLimit, RemoteCaller, caller_host, grpc_caller, to_peer


class Time:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def now():
    return Time()


@pytest.fixture
def limit(now):
    return PeerLimit(per_s=2, burst=4, what="calls", now=now)


def take(limit, peer, count):
    """How many of so many are answered."""
    answered = 0
    for _ in range(count):
        try:
            limit.take(RemoteCaller(peer))
        except TooMuch:
            continue
        answered += 1
    return answered


class TestPeerLimit:
    def test_burst_is_answered_and_no_more(self, limit):
        assert take(limit, "a", 10) == 4

    def test_time_gives_more_up_to_the_burst(self, limit, now):
        take(limit, "a", 4)
        now.seconds += 1
        assert take(limit, "a", 10) == 2
        now.seconds += 100
        assert take(limit, "a", 10) == 4

    def test_callers_do_not_take_from_each_other(self, limit):
        take(limit, "a", 10)

        assert take(limit, "b", 10) == 4

    def test_refusal_says_when_to_come_again(self, limit):
        limit.take(RemoteCaller("a"), 4)

        with pytest.raises(TooMuch) as caught:
            limit.take(RemoteCaller("a"), 4)

        assert caught.value.hint == "Try again in 2 s."
        assert "calls are limited" in str(caught.value)

    def test_callers_do_not_fill_the_memory(self, limit, monkeypatch):
        monkeypatch.setattr(peer_limit, "MAX_PEERS", 3)
        for peer in "abcdefgh":
            limit.take(RemoteCaller(peer))

        assert len(limit._buckets) == 3

    def test_threads_count_together(self, now):
        limit = PeerLimit(per_s=1, burst=100, what="calls", now=now)
        answered = []
        threads = [
            threading.Thread(target=lambda: answered.append(take(limit, "a", 50))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sum(answered) == 100


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
def test_caller_is_its_address_or_network(host, peer):
    assert to_peer(host) == peer


@pytest.mark.parametrize(
    ("told", "host"),
    [
        ("ipv4:192.0.2.1:1234", "192.0.2.1"),
        ("ipv6:%5B2001:db8::1%5D:1234", "2001:db8::1"),
        ("ipv6:[::1]:1234", "::1"),
        ("unix:/run/socket", ""),
    ],
)
def test_caller_is_read_from_what_grpc_tells(told, host):
    metadata = [("user-agent", "x"), ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-for", b"8")]

    assert grpc_caller(told, metadata) == RemoteCaller(host, ("192.0.2.7",))


@pytest.mark.parametrize(
    ("host", "forwarded", "who"),
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
def test_caller_behind_a_proxy_of_ours_is_whom_it_names_last(host, forwarded, who):
    """What stands before that the caller may have written itself."""
    assert caller_host(RemoteCaller(host, forwarded), (ip_network("10.0.0.0/24"),)) == who


def test_callers_behind_a_proxy_of_ours_do_not_take_from_each_other(now):
    limit = PeerLimit(per_s=1, burst=1, what="calls", proxies=(ip_network("10.0.0.9/32"),), now=now)
    limit.take(RemoteCaller("10.0.0.9", ("198.51.100.7",)))
    limit.take(RemoteCaller("10.0.0.9", ("198.51.100.8",)))

    with pytest.raises(TooMuch):
        limit.take(RemoteCaller("198.51.100.7"))


def read(metrics):
    """Return the samples that Prometheus' own parser finds."""
    families = text_string_to_metric_families(metrics.text())
    return {
        (one.name, *one.labels.values()): one.value for family in families for one in family.samples
    }


class TestMetrics:
    def test_outcomes_are_counted(self):
        metrics = Metrics({})

        def fail(error):
            raise error

        metrics.counted("call", lambda: 1)()
        for error in (TooMuch("x"), TooMuch("x"), KeyError("x")):
            with pytest.raises(type(error)):
                metrics.counted("call", fail)(error)

        samples = read(metrics)
        counts = {
            key[-1]: value for key, value in samples.items() if key[0] == "gridstead_calls_total"
        }
        assert counts == {"ok": 1, "too-much": 2, "bug": 1}
        assert samples["gridstead_call_seconds_total", "call"] > 0

    def test_gauges_are_read_when_they_are_asked_for(self):
        scripts, revisions = [], {"a.example.org": 7, "b.example.org": 8}
        metrics = Metrics(
            {
                "gridstead_scripts": Gauge("Scripts that are stored.", lambda: len(scripts)),
                "gridstead_cvmfs_revision": Gauge("Revision.", lambda: revisions, "repository"),
            }
        )
        scripts.append("one")

        assert read(metrics) == {
            ("gridstead_scripts",): 1,
            ("gridstead_cvmfs_revision", "a.example.org"): 7,
            ("gridstead_cvmfs_revision", "b.example.org"): 8,
        }

    def test_gauge_that_cannot_be_read_is_told(self):
        def fail():
            raise Transient("could not reach the state store")

        with pytest.raises(Transient):
            Metrics({"a": Gauge("b", fail)}).text()
