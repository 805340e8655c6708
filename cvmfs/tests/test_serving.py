# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of the replicas: its answers, and the requests that it refuses."""

from __future__ import annotations

import socket
from ipaddress import ip_network
from types import SimpleNamespace

import httpx
import pytest
from cvmfs.tests.publisher import Publisher

from gridstead.errors import ConfigError
from gridstead.rpc.metrics import Gauge, Metrics
from gridstead.rpc.rate_limit import RateLimiter
from gridstead.rpc.web import WebServer
from gridstead_cvmfs.errors import RepositoryUnavailable
from gridstead_cvmfs.rpc.replica import PIECE_BYTES, ReplicaServerOptions, make_app

NAME = "software.example.org"
METRICS = Metrics({"gridstead_cvmfs_revision": Gauge("Revision.", lambda: {NAME: 7}, "repository")})


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """Return the folder of all replicas."""
    return tmp_path_factory.mktemp("storage")


@pytest.fixture(scope="module")
def publisher(storage, keys):
    """Return the publisher of a served replica. Also write files that must not be served."""
    publisher = Publisher(storage / NAME, master=keys[0], signer=keys[1])
    publisher.publish()
    Publisher(storage / "other.example.org", master=keys[0], signer=keys[1]).publish()
    (storage / ".state").mkdir()
    (storage / ".state" / f"{NAME}.json").write_text("{}")
    folder = storage / NAME / "data/00"
    folder.mkdir(exist_ok=True)
    # A large object, a symbolic link and a directory. Their names have the format of object names.
    (folder / ("1" * 38)).write_bytes(bytes(range(256)) * (PIECE_BYTES // 100))  # 2.6 pieces
    (folder / ("2" * 38)).symlink_to("/etc/hostname")
    (folder / ("3" * 38)).mkdir()
    return publisher


@pytest.fixture(scope="module")
def server(storage, publisher):
    """Return the web server of the replicas, with a client and what the tests need.

    Attributes:
        failures: While this list is not empty, the server is not ready.
        large: The file of the large object.
    """
    failures = []

    def check():
        if failures:
            raise RepositoryUnavailable("no revision yet")

    options = ReplicaServerOptions(
        storage=storage,
        names=[NAME],
        check_ready=check,
        metrics=METRICS.text,
        metrics_networks=(ip_network("127.0.0.0/8"),),
        request_limiter=RateLimiter(per_s=100, burst=100, subject="checks"),
    )
    web_server = WebServer(make_app(options), name="test", host="127.0.0.1", port=0, tls=None)
    port = web_server.start()
    large_object = storage / NAME / "data/00" / ("1" * 38)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", verify=False) as client:
        yield SimpleNamespace(
            client=client, publisher=publisher, large=large_object, port=port, failures=failures
        )
    web_server.stop()


def test_signed_files_may_be_cached_for_a_minute_and_objects_for_days(server):
    signed_file = server.client.get(f"/cvmfs/{NAME}/.cvmfspublished")
    path = min(server.publisher.objects())
    answer = server.client.get(f"/cvmfs/{NAME}/{path}")

    assert signed_file.content == (server.publisher.root / ".cvmfspublished").read_bytes()
    assert answer.content == (server.publisher.root / path).read_bytes()
    assert signed_file.headers["cache-control"] == "max-age=61"
    assert answer.headers["cache-control"] == "max-age=259200"
    assert not {"last-modified", "etag"} & set(answer.headers)


def test_a_large_object_is_sent_with_its_length(server):
    answer = server.client.get(f"/cvmfs/{NAME}/data/00/{'1' * 38}")

    assert answer.content == server.large.read_bytes()
    assert answer.headers["content-length"] == str(server.large.stat().st_size)


def test_a_head_request_returns_the_length_without_content(server):
    answer = server.client.head(f"/cvmfs/{NAME}/data/00/{'1' * 38}")

    assert answer.content == b""
    assert answer.headers["content-length"] == str(server.large.stat().st_size)


def test_the_list_of_replicas_has_the_format_of_a_stratum_1(server):
    answer = server.client.get("/cvmfs/info/v1/repositories.json")

    replicas = [{"name": NAME, "url": f"/cvmfs/{NAME}"}]
    assert answer.json() == {"schema": 1, "repositories": [], "replicas": replicas}
    assert answer.headers["cache-control"] == "max-age=61"


BASE = f"/cvmfs/{NAME}"
ONES = "1" * 38  # the large object


@pytest.mark.parametrize(
    "path",
    [
        "/", "/cvmfs", "/cvmfs/",
        BASE, f"{BASE}/", f"{BASE}/data", f"{BASE}/data/", f"{BASE}/data/00", f"{BASE}/data/00/",
        f"{BASE}/data/txn/x", f"{BASE}/.cvmfs_master_replica", f"{BASE}/api/v1.0/geo/x/y",
        f"/CVMFS/{NAME}/.cvmfspublished",
        "/cvmfs/../etc/passwd", "/cvmfs/%2e%2e/%2e%2e/etc/passwd", f"{BASE}/../.state/{NAME}.json",
        f"{BASE}/%2e%2e/.state/{NAME}.json", f"/cvmfs/.state/{NAME}.json",
        "/cvmfs/other.example.org/.cvmfspublished",
        f"{BASE}//data/00/{ONES}", f"{BASE}/data/00/../00/{ONES}",
        f"{BASE}/data/00/{ONES}%00", f"{BASE}/data/00/{ONES}%0a",
        f"{BASE}/data/00/{'2' * 38}", f"{BASE}/data/00/{'3' * 38}", f"{BASE}/data/00/{'9' * 38}",
    ],
)  # fmt: skip
def test_a_path_that_is_neither_an_object_nor_a_signed_file_is_not_found(server, path):
    """The test uses a socket, because an HTTP client would normalise the path."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        answer = connection.makefile("rb").read()

    # The first line is: HTTP/1.1 404 Not Found
    assert answer.split(b" ", 2)[1] == b"404"
    assert b"root:" not in answer  # the start of /etc/passwd


def test_a_not_found_answer_may_not_be_cached(server):
    answer = server.client.get(f"/cvmfs/{NAME}/data/00/{'9' * 38}")

    assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_write_methods_are_refused(server, method):
    assert server.client.request(method, f"/cvmfs/{NAME}/.cvmfspublished").status_code == 405


def test_the_health_and_metrics_routes_answer(server):
    assert server.client.get("/health").text == "ok"
    assert server.client.get("/ready").text == "ok"
    server.failures.append(True)
    assert server.client.get("/ready").status_code == 503
    metric = f'gridstead_cvmfs_revision{{repository="{NAME}"}} 7.0\n'
    assert metric in server.client.get("/metrics").text


def test_an_address_in_use_is_refused(server):
    with pytest.raises(ConfigError, match="could not listen"):
        WebServer(server.client, name="test", host="127.0.0.1", port=server.port, tls=None).start()
