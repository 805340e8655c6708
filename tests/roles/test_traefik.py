# SPDX-License-Identifier: Apache-2.0
"""The gateway with the configuration of role traefik, on the loopback interface: access to each
route.
"""

import contextlib
import http.client
import http.server
import json
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tests.fakes.certificates import Authority
from tests.roles.conftest import LoadedInventory
from tests.roles.gateway import render_configuration, run_traefik, wait_until

STREAM_S = 2.0
SECRET = "hunter2"


class Back(http.server.BaseHTTPRequestHandler):
    """An HTTP handler that returns its request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = json.dumps({"path": self.path, "headers": dict(self.headers)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        """Print nothing."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the site's CA and the gateway's certificate."""
    folder = tmp_path_factory.mktemp("gateway")
    authority = Authority(folder)
    install(folder, authority.issue("gateway", "http.test", "grpc.test", "closed.test"))
    return folder, authority


def install(folder, files):
    files.certificate.replace(folder / "tls.crt")
    files.key.replace(folder / "tls.key")


@pytest.fixture(scope="module")
def http_back(place):
    """The port of an HTTPS service."""
    _, authority = place
    files = authority.issue("http-back")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Back)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def grpc_back(place):
    """The port of a gRPC service that counts streamed messages."""
    _, authority = place
    files = authority.issue("grpc-back")
    handler = grpc.method_handlers_generic_handler(
        "test.Api",
        {
            "Count": grpc.stream_unary_rpc_method_handler(
                lambda asked, _: str(len(list(asked))).encode()
            )
        },
    )
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((handler,))
    pair = (files.key.read_bytes(), files.certificate.read_bytes())
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    yield port
    server.stop(None).wait()


@pytest.fixture(scope="module")
def gateway(site: LoadedInventory, place, http_back, grpc_back):
    folder, _ = place
    https = [f"https://localhost:{http_back}"]
    static, dynamic = render_configuration(
        site,
        folder,
        traefik_ca_file=str(folder / "ca.crt"),
        traefik_metrics_allowed=["127.0.0.1"],
        traefik_routes=[
            {"name": "open", "hosts": ["http.test"], "paths": ["/graphql", "/files/"], "servers": https},
            {"name": "closed", "hosts": ["closed.test"], "servers": https, "allowed": ["192.0.2.1"]},
            {
                "name": "grpc", "kind": "grpc", "hosts": ["grpc.test"], "paths": ["/test.Api/"],
                "servers": [f"https://localhost:{grpc_back}"],
            },
        ],
        traefik_ldaps_names=["localhost"],
        traefik_ldaps_servers=[f"localhost:{http_back}"],
        traefik_ldaps_allowed=["127.0.0.0/8"],
    )  # fmt: skip
    # What takes a minute takes a second here.
    static["entryPoints"]["websecure"]["transport"]["respondingTimeouts"]["readTimeout"] = "1s"
    with run_traefik(folder, static, dynamic) as traefik:
        yield traefik


def handshake(place, gateway, door, name):
    """Return a TLS connection to an entry point of the gateway, with a server name."""
    folder, _ = place
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    plain = socket.create_connection(("127.0.0.1", gateway.ports[door]), timeout=10)
    try:
        return context.wrap_socket(plain, server_hostname=name)
    except OSError:
        plain.close()
        raise


def get(place, gateway, name, path, *, door="websecure", headers=None):
    """Return status and text of a page."""
    connection = http.client.HTTPSConnection(name)
    with contextlib.closing(connection):
        connection.sock = handshake(place, gateway, door, name)
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_http_is_redirected_to_https(gateway):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.ports["web"], timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/graphql", headers={"Host": "http.test"})
        answer = connection.getresponse()
        answer.read()

    assert answer.status == 301
    assert answer.headers["Location"] == f"https://http.test:{gateway.ports['websecure']}/graphql"


@pytest.mark.parametrize("path", ["/graphql", "/graphql?x=1", "/files/a/b"])
def test_a_path_of_a_route_reaches_its_service(place, gateway, path):
    status, text = get(place, gateway, "http.test", path)

    assert status == 200
    assert json.loads(text)["path"] == path


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/graphql/", "/graphqlx", "/files", "/files/../metrics", "/api/version"],
)
def test_other_paths_reach_no_service(place, gateway, path):
    assert get(place, gateway, "http.test", path)[0] == 404


@pytest.mark.parametrize("path", ["/files/%2e%2e%2fmetrics", "/files/a%5cb", "/files/a%00"])
def test_an_ambiguous_path_is_refused(place, gateway, path):
    assert get(place, gateway, "http.test", path)[0] == 400


def test_only_the_gateway_sets_the_callers_address(place, gateway):
    _, text = get(
        place,
        gateway,
        "http.test",
        "/graphql",
        headers={"X-Forwarded-For": "192.0.2.9", "X_Real_Ip": "x"},
    )

    headers = json.loads(text)["headers"]
    assert headers["X-Forwarded-For"] == "127.0.0.1"
    assert "X_Real_Ip" not in headers


@pytest.mark.parametrize("door", ["websecure", "grpc", "metrics", "ldaps"])
def test_an_unknown_server_name_is_refused(place, gateway, door):
    with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
        handshake(place, gateway, door, "other.test")


def test_an_old_tls_version_is_refused(place, gateway):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(place[0] / "ca.crt")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

    with (
        socket.create_connection(("127.0.0.1", gateway.ports["websecure"]), timeout=10) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain, server_hostname="http.test")


def test_a_foreign_address_is_refused(place, gateway):
    assert get(place, gateway, "closed.test", "/") == (403, "Forbidden")


def test_a_grpc_stream_outlasts_the_http_timeout(place, gateway):
    folder, _ = place

    def slowly():
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

        assert count(slowly(), timeout=20) == b"5"
        with pytest.raises(grpc.RpcError) as refusal:
            # Whole at once: gRPC tells an answer that comes while it sends as a broken stream.
            channel.unary_unary("/test.Other/Count")(b"x", timeout=20)

    assert refusal.value.code() == grpc.StatusCode.UNIMPLEMENTED  # as gRPC reads HTTP's 404


def test_the_directory_uses_sni_passthrough(place, gateway):
    with handshake(place, gateway, "ldaps", "localhost") as connection:
        subject = dict(pair[0] for pair in connection.getpeercert()["subject"])

    assert subject["commonName"] == "http-back"


def test_a_web_service_name_is_refused_on_the_directorys_port(place, gateway):
    assert get(place, gateway, "http.test", "/graphql", door="ldaps")[0] == 404


def test_metrics_use_tls_and_count_requests(place, gateway):
    get(place, gateway, "http.test", "/graphql")

    status, text = get(place, gateway, "localhost", "/metrics", door="metrics")

    assert status == 200
    assert (
        'traefik_router_requests_total{code="200",method="GET",protocol="http",router="open@file"'
        in text
    )


def test_the_access_log_contains_no_secret(place, gateway):
    headers = {
        "Authorization": f"Bearer {SECRET}",
        "Cookie": SECRET,
        "Referer": f"https://a/?{SECRET}",
    }

    get(place, gateway, "http.test", f"/files/told?token={SECRET}", headers=headers)

    wait_until(
        lambda: any(
            entry["RequestPath"].startswith("/files/told") for entry in gateway.read_access_log()
        ),
        gateway.read_log,
    )
    assert SECRET not in (gateway.folder / "access.log").read_text()


def test_a_new_certificate_is_loaded_without_a_restart(place, gateway):
    folder, authority = place
    install(folder, authority.issue("renewed", "http.test", "grpc.test", "closed.test"))
    gateway.process.send_signal(1)  # HUP, as the unit's reload does

    def is_new():
        with handshake(place, gateway, "websecure", "http.test") as connection:
            return ("commonName", "renewed") in [
                pair[0] for pair in connection.getpeercert()["subject"]
            ]

    wait_until(is_new, gateway.read_log)


@pytest.fixture
def routes(place, gateway):
    """The file of routes. The fixture restores it, because tests share the gateway."""
    file = gateway.folder / "dynamic/gridstead.yml"
    before = file.read_text()
    yield file
    rewrite(file, before)
    wait_until(lambda: get(place, gateway, "http.test", "/graphql")[0] == 200, gateway.read_log)


def rewrite(file, text):
    """Replace a file atomically, like Ansible. Traefik would read an empty file as an empty
    configuration.
    """
    new = file.parents[1] / "new-routes"
    new.write_text(text)
    new.replace(file)


def test_a_changed_route_is_loaded_without_a_restart(place, gateway, routes):
    rewrite(routes, routes.read_text().replace("/graphql", "/query"))

    wait_until(lambda: get(place, gateway, "http.test", "/query")[0] == 200, gateway.read_log)
