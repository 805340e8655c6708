# SPDX-License-Identifier: Apache-2.0
"""gridstead cvmfs."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from ipaddress import ip_network
from pathlib import Path

from gridstead.adapters.clock import SystemClock
from gridstead.adapters.cvmfs.databases import CompressedDatabases
from gridstead.adapters.cvmfs.files import DiskFiles
from gridstead.adapters.cvmfs.objects import DiskObjects
from gridstead.adapters.cvmfs.signatures import RsaSignatures
from gridstead.adapters.cvmfs.upstream import FetchLimits, HttpUpstream
from gridstead.config import CvmfsSettings, FetchSettings, Repository
from gridstead.domain.cvmfs.replica import ReplicaState, Revision
from gridstead.domain.cvmfs.trust import SignedFiles
from gridstead.errors import RepositoryUnavailable
from gridstead.rpc.cvmfs import ReplicaOffer, make_app
from gridstead.rpc.metrics import Gauge, Metrics
from gridstead.rpc.peer_limit import PeerLimit
from gridstead.rpc.web import WebServer
from gridstead.services.cvmfs import Habits, Replica, ReplicaPorts
from gridstead.services.cvmfs_signed_files import check_consent, read_signed_files
from gridstead.wiring import loop
from gridstead.wiring.credentials import to_files

MIB = 1024 * 1024
HOUR_S = 3600
DAY_S = 24 * HOUR_S
CHECKS_PER_S = 10


def run(settings: CvmfsSettings) -> None:
    """Pull and serve replicas until it is stopped."""
    with open_replicas(settings) as replicas:
        metrics = _metrics(replicas)
        server = _server(settings, replicas, metrics)
        server.start()
        ticks = tuple(
            loop.Tick(
                name=f"cvmfs {replica.name}",
                do=metrics.counted("snapshot", replica.tick),
                every_s=settings.snapshot_every_s,
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
    """Open the replicas of these names, or all of them."""
    wanted = set(names)
    repositories = [one for one in settings.repositories if not wanted or one.name in wanted]
    tls = ssl.create_default_context()
    with ExitStack() as opened:
        upstreams = [
            opened.enter_context(closing(_upstream(one.url, settings.fetch, tls)))
            for one in repositories
        ]
        yield tuple(_replica(settings, *each) for each in zip(repositories, upstreams, strict=True))


def probe(name: str, url: str, keys: Iterable[Path]) -> SignedFiles:
    """Return what a repository shows of itself, once it is believed; nothing is stored.

    Raises:
        RepositoryUntrusted: It is not believed.
    """
    clock = SystemClock()
    with closing(_upstream(url, FetchSettings(), ssl.create_default_context())) as upstream:
        check_consent(upstream, name)
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
    habits = Habits(
        workers=settings.fetch.workers,
        keep_s=settings.keep_superseded_days * DAY_S,
        sweep_every_s=settings.collect_every_hours * HOUR_S,
    )
    return Replica(repository.name, ports, habits)


def _server(settings: CvmfsSettings, replicas: tuple[Replica, ...], metrics: Metrics) -> WebServer:
    def check() -> None:
        if all(replica.state().current is None for replica in replicas):
            raise RepositoryUnavailable("no revision of any repository is here yet")

    offer = ReplicaOffer(
        storage=settings.storage_directory,
        names=[replica.name for replica in replicas],
        check=check,
        metrics=metrics.text,
        metrics_for=tuple(map(ip_network, settings.metrics_for)),
        requests=PeerLimit(per_s=CHECKS_PER_S, burst=CHECKS_PER_S, what="checks"),
    )
    host, _, port = settings.listen.rpartition(":")
    tls = to_files(settings.tls) if settings.tls else None
    return WebServer(make_app(offer), name="cvmfs", host=host, port=int(port), tls=tls)


def _metrics(replicas: tuple[Replica, ...]) -> Metrics:
    def read(value: Callable[[ReplicaState], float | None]) -> dict[str, float]:
        """Return a value of each replica that has one."""
        found = {replica.name: value(replica.state()) for replica in replicas}
        return {name: one for name, one in found.items() if one is not None}

    def of_current(value: Callable[[Revision], int]) -> Callable[[ReplicaState], float | None]:
        return lambda state: value(state.current) if state.current else None

    told: dict[str, tuple[str, Callable[[ReplicaState], float | None]]] = {
        "revision": ("Revision that is served.", of_current(lambda one: one.number)),
        "revision_timestamp_seconds": (
            "When it was published.",
            of_current(lambda one: one.published_at),
        ),
        "last_snapshot_timestamp_seconds": (
            "When a pull last ended well.",
            lambda state: state.last_snapshot,
        ),
        "last_gc_timestamp_seconds": (
            "When old objects were last removed.",
            lambda state: state.last_sweep,
        ),
        "whitelist_expiry_timestamp_seconds": (
            "Until when its publisher vouches for its signers.",
            lambda state: state.whitelist_expires_at,
        ),
    }
    return Metrics(
        {
            f"gridstead_cvmfs_{name}": Gauge(about, partial(read, value), "repository")
            for name, (about, value) in told.items()
        }
    )
