# SPDX-License-Identifier: Apache-2.0
"""Wiring of gridstead cvmfs: the replicas, their web server and their metrics."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from ipaddress import ip_network
from pathlib import Path

from gridstead.adapters.clock import SystemClock
from gridstead.rpc.metrics import Gauge, Metrics
from gridstead.rpc.rate_limit import RateLimiter
from gridstead.rpc.web import WebServer
from gridstead.wiring import loop
from gridstead.wiring.credentials import tls_files
from gridstead_cvmfs.adapters.databases import CompressedDatabases
from gridstead_cvmfs.adapters.files import DiskFiles
from gridstead_cvmfs.adapters.objects import DiskObjects
from gridstead_cvmfs.adapters.signatures import RsaSignatures
from gridstead_cvmfs.adapters.upstream import FetchLimits, HttpUpstream
from gridstead_cvmfs.config import CvmfsSettings, FetchSettings, Repository
from gridstead_cvmfs.domain.replica import ReplicaState, Revision
from gridstead_cvmfs.domain.trust import SignedFiles
from gridstead_cvmfs.errors import RepositoryUnavailable
from gridstead_cvmfs.rpc.replica import ReplicaServerOptions, make_app
from gridstead_cvmfs.services.replica import Replica, ReplicaPolicy, ReplicaPorts
from gridstead_cvmfs.services.signed_files import check_replication_allowed, read_signed_files

MIB = 1024 * 1024
HOUR_S = 3600
DAY_S = 24 * HOUR_S
CHECKS_PER_S = 10


def run(settings: CvmfsSettings) -> None:
    """Pull and serve replicas until the process is stopped."""
    with open_replicas(settings) as replicas:
        metrics = _metrics(replicas)
        server = _server(settings, replicas, metrics)
        server.start()
        ticks = tuple(
            loop.Tick(
                name=f"cvmfs {replica.name}",
                function=metrics.counted("snapshot", replica.tick),
                interval_s=settings.snapshot_every_s,
            )
            for replica in replicas
        )

        def interrupt() -> None:
            for replica in replicas:
                replica.stop()

        loop.run(ticks, interrupt=interrupt, close=(server.stop,))


@contextmanager
def open_replicas(
    settings: CvmfsSettings, names: Iterable[str] = ()
) -> Iterator[tuple[Replica, ...]]:
    """Open the replicas with the ``names``. Empty ``names`` select all replicas."""
    selected_names = set(names)
    repositories = [
        repository
        for repository in settings.repositories
        if not selected_names or repository.name in selected_names
    ]
    tls = ssl.create_default_context()
    with ExitStack() as stack:
        replicas = []
        for repository in repositories:
            upstream = stack.enter_context(closing(_upstream(repository.url, settings.fetch, tls)))
            replicas.append(_replica(settings, repository, upstream))
        yield tuple(replicas)


def probe(name: str, url: str, keys: Iterable[Path]) -> SignedFiles:
    """Fetch and check the signed files of a repository, and return them. Nothing is stored.

    Raises:
        RepositoryUntrusted: If a check fails.
    """
    clock = SystemClock()
    with closing(_upstream(url, FetchSettings(), ssl.create_default_context())) as upstream:
        check_replication_allowed(upstream, name)
        return read_signed_files(upstream, RsaSignatures(keys), name=name, now=clock.now())


def _upstream(url: str, fetch: FetchSettings, tls: ssl.SSLContext) -> HttpUpstream:
    object_bytes = fetch.max_object_mib * MIB
    limits = FetchLimits(
        timeout_s=fetch.timeout_s, object_bytes=object_bytes, connections=fetch.workers + 1
    )
    return HttpUpstream(url, limits, tls=tls)


def _replica(settings: CvmfsSettings, repository: Repository, upstream: HttpUpstream) -> Replica:
    storage = settings.storage_directory
    objects = DiskObjects(storage / repository.name, min_free_bytes=settings.min_free_mib * MIB)
    ports = ReplicaPorts(
        upstream=upstream,
        signatures=RsaSignatures(repository.public_key_files),
        objects=objects,
        databases=CompressedDatabases(objects, max_bytes=settings.fetch.max_catalog_mib * MIB),
        files=DiskFiles(storage, repository.name),
        clock=SystemClock(),
    )
    policy = ReplicaPolicy(
        workers=settings.fetch.workers,
        keep_s=settings.keep_superseded_days * DAY_S,
        sweep_every_s=settings.collect_every_hours * HOUR_S,
    )
    return Replica(repository.name, ports, policy)


def _server(settings: CvmfsSettings, replicas: tuple[Replica, ...], metrics: Metrics) -> WebServer:
    def check() -> None:
        if all(replica.state().current is None for replica in replicas):
            raise RepositoryUnavailable("no revision of any repository is stored yet")

    options = ReplicaServerOptions(
        storage=settings.storage_directory,
        names=[replica.name for replica in replicas],
        check_ready=check,
        metrics=metrics.text,
        metrics_networks=tuple(map(ip_network, settings.metrics_for)),
        request_limiter=RateLimiter(per_s=CHECKS_PER_S, burst=CHECKS_PER_S, subject="checks"),
    )
    host, _, port = settings.listen.rpartition(":")
    tls = tls_files(settings.tls) if settings.tls else None
    return WebServer(make_app(options), name="cvmfs", host=host, port=int(port), tls=tls)


def _metrics(replicas: tuple[Replica, ...]) -> Metrics:
    def read(value: Callable[[ReplicaState], float | None]) -> dict[str, float]:
        """Return the ``value`` of each replica, by name. Omit a replica whose value is None."""
        numbers = {}
        for replica in replicas:
            number = value(replica.state())
            if number is not None:
                numbers[replica.name] = number
        return numbers

    return Metrics(
        {
            f"gridstead_cvmfs_{name}": Gauge(description, partial(read, value), "repository")
            for name, (description, value) in GAUGES.items()
        }
    )


def _of_current(value: Callable[[Revision], int]) -> Callable[[ReplicaState], float | None]:
    """Return a function that reads a value of the current revision of a replica."""
    return lambda state: value(state.current) if state.current else None


GAUGES: dict[str, tuple[str, Callable[[ReplicaState], float | None]]] = {
    "revision": ("Number of the served revision.", _of_current(lambda revision: revision.number)),
    "revision_timestamp_seconds": (
        "Time of publication of the served revision.",
        _of_current(lambda revision: revision.published_at),
    ),
    "last_snapshot_timestamp_seconds": (
        "Time of the last successful pull.",
        lambda state: state.last_snapshot,
    ),
    "last_gc_timestamp_seconds": (
        "Time of the last removal of old objects.",
        lambda state: state.last_sweep,
    ),
    "whitelist_expiry_timestamp_seconds": (
        "Time at which the whitelist expires.",
        lambda state: state.whitelist_expires_at,
    ),
}
