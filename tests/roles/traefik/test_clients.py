# SPDX-License-Identifier: Apache-2.0
"""Tests with clients of a real Traefik that has the configuration of role traefik.

The tests check which clients can reach which services, and which TLS versions and server names are
accepted.
"""

import contextlib
import http.client
import json
import signal
import socket
import ssl
import time

import grpc
import pytest
from tests.roles.conftest import LoadedInventory
from tests.roles.traefik.conftest import install
from tests.roles.traefik.gateway import render_configuration, run_traefik, wait_until

STREAM_S = 2.0  # longer than the read timeout of HTTP requests, which fixture gateway sets to 1 s
SECRET = "hunter2"


@pytest.fixture(scope="module")
def gateway(site: LoadedInventory, folder_and_ca, http_port, grpc_port):
    """The running gateway with two HTTP routes, a gRPC route and the route of the directory."""
    folder, _ = folder_and_ca
    http_servers = [f"https://localhost:{http_port}"]
    grpc_servers = [f"https://localhost:{grpc_port}"]
    static, dynamic = render_configuration(
        site,
        folder,
        traefik_ca_file=str(folder / "ca.crt"),
        traefik_metrics_allowed=["127.0.0.1"],
        traefik_routes=[
            {
                "name": "open",
                "hosts": ["http.test"],
                "paths": ["/graphql", "/files/"],
                "servers": http_servers,
            },
            {
                "name": "closed",
                "hosts": ["closed.test"],
                "servers": http_servers,
                "allowed": ["192.0.2.1"],
            },
            {
                "name": "grpc",
                "kind": "grpc",
                "hosts": ["grpc.test"],
                "paths": ["/test.Api/"],
                "servers": grpc_servers,
            },
        ],
        traefik_ldaps_names=["localhost"],
        traefik_ldaps_servers=[f"localhost:{http_port}"],
        traefik_ldaps_allowed=["127.0.0.0/8"],
    )
    # The role sets one minute. With one second, the test of the timeout is short.
    static["entryPoints"]["websecure"]["transport"]["respondingTimeouts"]["readTimeout"] = "1s"
    with run_traefik(folder, static, dynamic) as traefik:
        yield traefik


def handshake(folder_and_ca, gateway, entry_point, name):
    """Return a TLS connection to an entry point of the gateway, with a server name."""
    folder, _ = folder_and_ca
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    tcp_connection = socket.create_connection(("127.0.0.1", gateway.ports[entry_point]), timeout=10)
    try:
        return context.wrap_socket(tcp_connection, server_hostname=name)
    except OSError:
        tcp_connection.close()
        raise


def get(folder_and_ca, gateway, name, path, *, entry_point="websecure", headers=None):
    """Return the status and the text of a response."""
    connection = http.client.HTTPSConnection(name)
    with contextlib.closing(connection):
        connection.sock = handshake(folder_and_ca, gateway, entry_point, name)
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_http_is_redirected_to_https(gateway):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.ports["web"], timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/graphql", headers={"Host": "http.test"})
        response = connection.getresponse()
        response.read()

    assert response.status == 301
    assert response.headers["Location"] == f"https://http.test:{gateway.ports['websecure']}/graphql"


@pytest.mark.parametrize("path", ["/graphql", "/graphql?x=1", "/files/a/b"])
def test_a_path_of_a_route_reaches_its_service(folder_and_ca, gateway, path):
    status, text = get(folder_and_ca, gateway, "http.test", path)

    assert status == 200
    assert json.loads(text)["path"] == path


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/graphql/", "/graphqlx", "/files", "/files/../metrics", "/api/version"],
)
def test_other_paths_reach_no_service(folder_and_ca, gateway, path):
    assert get(folder_and_ca, gateway, "http.test", path)[0] == 404


@pytest.mark.parametrize("path", ["/files/%2e%2e%2fmetrics", "/files/a%5cb", "/files/a%00"])
def test_an_ambiguous_path_is_refused(folder_and_ca, gateway, path):
    assert get(folder_and_ca, gateway, "http.test", path)[0] == 400


def test_only_the_gateway_sets_the_callers_address(folder_and_ca, gateway):
    _, text = get(
        folder_and_ca,
        gateway,
        "http.test",
        "/graphql",
        headers={"X-Forwarded-For": "192.0.2.9", "X_Real_Ip": "x"},
    )

    headers = json.loads(text)["headers"]
    assert headers["X-Forwarded-For"] == "127.0.0.1"
    assert "X_Real_Ip" not in headers


@pytest.mark.parametrize("entry_point", ["websecure", "grpc", "metrics", "ldaps"])
def test_an_unknown_server_name_is_refused(folder_and_ca, gateway, entry_point):
    with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
        handshake(folder_and_ca, gateway, entry_point, "other.test")


def test_an_old_tls_version_is_refused(folder_and_ca, gateway):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(folder_and_ca[0] / "ca.crt")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

    with (
        socket.create_connection(
            ("127.0.0.1", gateway.ports["websecure"]), timeout=10
        ) as tcp_connection,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(tcp_connection, server_hostname="http.test")


def test_a_client_whose_address_the_route_does_not_allow_is_refused(folder_and_ca, gateway):
    assert get(folder_and_ca, gateway, "closed.test", "/") == (403, "Forbidden")


def test_a_grpc_stream_outlasts_the_http_timeout(folder_and_ca, gateway):
    folder, _ = folder_and_ca

    def slow_messages():
        for _ in range(5):
            yield b"x"
            time.sleep(STREAM_S / 5)

    credentials = grpc.ssl_channel_credentials((folder / "ca.crt").read_bytes())
    options = [
        ("grpc.ssl_target_name_override", "grpc.test"),
        ("grpc.default_authority", "grpc.test"),
    ]
    with grpc.secure_channel(f"127.0.0.1:{gateway.ports['grpc']}", credentials, options) as channel:
        count = channel.stream_unary("/test.Api/Count")

        assert count(slow_messages(), timeout=20) == b"5"
        with pytest.raises(grpc.RpcError) as refusal:
            # The call is unary, because gRPC reports a response during a stream as a broken stream.
            channel.unary_unary("/test.Other/Count")(b"x", timeout=20)

    assert refusal.value.code() == grpc.StatusCode.UNIMPLEMENTED  # gRPC's code for HTTP 404


def test_the_directory_uses_sni_passthrough(folder_and_ca, gateway):
    with handshake(folder_and_ca, gateway, "ldaps", "localhost") as connection:
        certificate = connection.getpeercert()

    assert common_name(certificate) == "http-back"


def common_name(certificate):
    """Return the common name of a certificate as ssl decodes it."""
    for ((attribute, value),) in certificate["subject"]:
        if attribute == "commonName":
            return value
    return None


def test_a_web_service_name_is_refused_on_the_directorys_port(folder_and_ca, gateway):
    assert get(folder_and_ca, gateway, "http.test", "/graphql", entry_point="ldaps")[0] == 404


def test_metrics_use_tls_and_count_requests(folder_and_ca, gateway):
    get(folder_and_ca, gateway, "http.test", "/graphql")

    status, text = get(folder_and_ca, gateway, "localhost", "/metrics", entry_point="metrics")

    assert status == 200
    assert (
        'traefik_router_requests_total{code="200",method="GET",protocol="http",router="open@file"'
        in text
    )


def test_the_access_log_contains_no_secret(folder_and_ca, gateway):
    headers = {
        "Authorization": f"Bearer {SECRET}",
        "Cookie": SECRET,
        "Referer": f"https://a/?{SECRET}",
    }

    get(folder_and_ca, gateway, "http.test", f"/files/secret?token={SECRET}", headers=headers)

    def is_logged():
        paths = [entry["RequestPath"] for entry in gateway.read_access_log()]
        return any(path.startswith("/files/secret") for path in paths)

    wait_until(is_logged, gateway.read_log)
    assert SECRET not in (gateway.folder / "access.log").read_text()


def test_a_new_certificate_is_loaded_without_a_restart(folder_and_ca, gateway):
    folder, authority = folder_and_ca
    install(folder, authority.issue("renewed", "http.test", "grpc.test", "closed.test"))
    gateway.process.send_signal(signal.SIGHUP)  # like the reload of the unit

    def is_new():
        with handshake(folder_and_ca, gateway, "websecure", "http.test") as connection:
            return common_name(connection.getpeercert()) == "renewed"

    wait_until(is_new, gateway.read_log)


@pytest.fixture
def routes(folder_and_ca, gateway):
    """The file of the routes, which is restored after the test."""
    file = gateway.folder / "dynamic/gridstead.yml"
    before = file.read_text()
    yield file
    rewrite(file, before)
    wait_until(
        lambda: get(folder_and_ca, gateway, "http.test", "/graphql")[0] == 200, gateway.read_log
    )


def rewrite(file, text):
    """Replace a file atomically, like Ansible, so that Traefik never reads a part of the file."""
    new = file.parents[1] / "new-routes"
    new.write_text(text)
    new.replace(file)


def test_a_changed_route_is_loaded_without_a_restart(folder_and_ca, gateway, routes):
    rewrite(routes, routes.read_text().replace("/graphql", "/query"))

    wait_until(
        lambda: get(folder_and_ca, gateway, "http.test", "/query")[0] == 200, gateway.read_log
    )
