# SPDX-License-Identifier: Apache-2.0
"""What a replica's clients get over HTTP, and what they do not."""

from __future__ import annotations

import socket
from ipaddress import ip_network
from types import SimpleNamespace

import httpx
import pytest
from tests.fakes.cvmfs import Publisher

from gridstead.errors import ConfigError, RepositoryUnavailable
from gridstead.rpc.cvmfs import PIECE_BYTES, ReplicaOffer, make_app
from gridstead.rpc.metrics import Gauge, Metrics
from gridstead.rpc.peer_limit import PeerLimit
from gridstead.rpc.web import WebServer

NAME = "software.example.org"
METRICS = Metrics({"gridstead_cvmfs_revision": Gauge("Revision.", lambda: {NAME: 7}, "repository")})


@pytest.fixture(scope="module")
def served(tmp_path_factory, keys):
    """A published repository as if it were a replica, behind our server."""
    storage = tmp_path_factory.mktemp("storage")
    publisher = Publisher(storage / NAME, master=keys[0], signer=keys[1])
    publisher.publish()
    Publisher(storage / "other.example.org", master=keys[0], signer=keys[1]).publish()
    (storage / ".state").mkdir()
    (storage / ".state" / f"{NAME}.json").write_text("{}")
    large = storage / NAME / "data/00" / ("1" * 38)
    large.parent.mkdir(exist_ok=True)
    large.write_bytes(bytes(range(256)) * (PIECE_BYTES // 100))
    (storage / NAME / "data/00" / ("2" * 38)).symlink_to("/etc/hostname")
    (storage / NAME / "data/00" / ("3" * 38)).mkdir()
    absent = []

    def check():
        if absent:
            raise RepositoryUnavailable("no revision yet")

    offer = ReplicaOffer(
        storage=storage,
        names=[NAME],
        check=check,
        metrics=METRICS.text,
        metrics_for=(ip_network("127.0.0.0/8"),),
        requests=PeerLimit(per_s=100, burst=100, what="checks"),
    )
    server = WebServer(make_app(offer), name="test", host="127.0.0.1", port=0, tls=None)
    port = server.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", verify=False) as client:
        yield SimpleNamespace(
            client=client, publisher=publisher, large=large, port=port, absent=absent
        )
    server.stop()


def test_letters_are_served_for_a_minute_and_objects_for_days(served):
    signed_file = served.client.get(f"/cvmfs/{NAME}/.cvmfspublished")
    path = min(served.publisher.objects())
    found = served.client.get(f"/cvmfs/{NAME}/{path}")

    assert signed_file.content == (served.publisher.root / ".cvmfspublished").read_bytes()
    assert found.content == (served.publisher.root / path).read_bytes()
    assert signed_file.headers["cache-control"] == "max-age=61"
    assert found.headers["cache-control"] == "max-age=259200"
    assert not {"last-modified", "etag"} & set(found.headers)


def test_a_large_object_comes_in_pieces_with_its_length(served):
    answer = served.client.get(f"/cvmfs/{NAME}/data/00/{'1' * 38}")

    assert answer.content == served.large.read_bytes()
    assert answer.headers["content-length"] == str(served.large.stat().st_size)


def test_a_head_has_the_length_and_nothing_else(served):
    answer = served.client.head(f"/cvmfs/{NAME}/data/00/{'1' * 38}")

    assert (answer.content, answer.headers["content-length"]) == (
        b"",
        str(served.large.stat().st_size),
    )


def test_replicas_are_listed_as_watching_programs_read_it(served):
    answer = served.client.get("/cvmfs/info/v1/repositories.json")

    replicas = [{"name": NAME, "url": f"/cvmfs/{NAME}"}]
    assert answer.json() == {"schema": 1, "repositories": [], "replicas": replicas}
    assert answer.headers["cache-control"] == "max-age=61"


R = f"/cvmfs/{NAME}"
ONES = "1" * 38


@pytest.mark.parametrize(
    "path",
    [
        "/", "/cvmfs", "/cvmfs/", R, f"{R}/", f"{R}/data", f"{R}/data/", f"{R}/data/00", f"{R}/data/00/",
        f"{R}/data/txn/x", f"{R}/.cvmfs_master_replica", f"{R}/api/v1.0/geo/x/y", f"/CVMFS/{NAME}/.cvmfspublished",
        "/cvmfs/../etc/passwd", "/cvmfs/%2e%2e/%2e%2e/etc/passwd", f"{R}/../.state/{NAME}.json",
        f"{R}/%2e%2e/.state/{NAME}.json", f"/cvmfs/.state/{NAME}.json", "/cvmfs/other.example.org/.cvmfspublished",
        f"{R}//data/00/{ONES}", f"{R}/data/00/../00/{ONES}", f"{R}/data/00/{ONES}%00", f"{R}/data/00/{ONES}%0a",
        f"{R}/data/00/{'2' * 38}", f"{R}/data/00/{'3' * 38}", f"{R}/data/00/{'9' * 38}",
    ],
)  # fmt: skip
def test_nothing_else_is_there(served, path):
    """Asked without a client that tidies paths up."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        answer = connection.makefile("rb").read()

    assert answer.split(b" ", 2)[1] == b"404"
    assert b"root:" not in answer


def test_what_is_not_there_may_not_be_cached(served):
    answer = served.client.get(f"/cvmfs/{NAME}/data/00/{'9' * 38}")

    assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_written(served, method):
    assert served.client.request(method, f"/cvmfs/{NAME}/.cvmfspublished").status_code == 405


def test_it_tells_its_condition(served):
    assert served.client.get("/health").text == "ok"
    assert served.client.get("/ready").text == "ok"
    served.absent.append(True)
    assert served.client.get("/ready").status_code == 503
    assert (
        f'gridstead_cvmfs_revision{{repository="{NAME}"}} 7.0\n'
        in served.client.get("/metrics").text
    )


def test_an_address_that_is_taken_is_told(served):
    with pytest.raises(ConfigError, match="could not listen"):
        WebServer(served.client, name="test", host="127.0.0.1", port=served.port, tls=None).start()
