# SPDX-License-Identifier: Apache-2.0
"""Clients of a real Traefik with the names of examples/gateway-public-names.yml, on one port."""

import contextlib
import http.client
import json
import socket
import ssl

import grpc
import pytest
from ansible.template import trust_as_template
from tests.roles.catalogue import ROOT
from tests.roles.conftest import LoadedInventory, trust_templates
from tests.roles.traefik.conftest import install
from tests.roles.traefik.gateway import ROLE, render_configuration, run_traefik
from tests.yaml_files import read_yaml

EXAMPLE = ROOT / "examples/gateway-public-names.yml"
LOGGER, CHAIN = "logger.grid.example", "chain.grid.example"
READ = "/logger.v1alpha1.LoggerAPI/Read"


def example_routes(site: LoadedInventory):
    """Return the routes of a site with a grid and the variables of the example."""
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0])
    variables = trust_templates(read_yaml(EXAMPLE))
    variables["groups"] = {"grid": ["g"], "gateway": ["gw"], "slurm_login": []}
    templar.available_variables |= variables
    return templar.template(trust_as_template("{{ traefik_routes }}"))


@pytest.fixture(scope="module")
def gateway(site: LoadedInventory, folder_and_ca, http_port, grpc_port):
    """The running gateway. Its servers are an echo server and, for gRPC, a server of test.Api."""
    folder, authority = folder_and_ca
    install(folder, authority.issue("names", LOGGER, CHAIN, "job-definitions.grid.example"))
    routes = example_routes(site)
    for route in routes:
        is_grpc = route.get("kind") == "grpc"
        port = grpc_port if is_grpc else http_port
        route["servers"] = [f"https://localhost:{port}"]
    static, dynamic = render_configuration(
        site,
        folder,
        traefik_ca_file=str(folder / "ca.crt"),
        traefik_grpc_port=443,
        traefik_routes=routes,
    )
    with run_traefik(folder, static, dynamic) as traefik:
        yield traefik


def request(folder_and_ca, gateway, method, name, path, headers=None):
    """Send a request to port 443 of the gateway, and return what the echo server received."""
    folder, _ = folder_and_ca
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    address = ("127.0.0.1", gateway.ports["websecure"])
    connection = http.client.HTTPSConnection(name)
    with contextlib.closing(connection):
        tcp_connection = socket.create_connection(address, timeout=10)
        connection.sock = context.wrap_socket(tcp_connection, server_hostname=name)
        connection.request(method, path, b"", headers or {})
        response = connection.getresponse()
        text = response.read()
        assert response.status == 200, text
        return json.loads(text)


def test_the_gateway_has_no_second_entry_point_for_grpc(gateway):
    assert "grpc" not in gateway.ports


@pytest.mark.parametrize(
    ("path", "path_of_server"),
    [("/rpc", "/"), ("/rpc/", "/"), ("/rpc/v2", "/v2"), ("/rpc?key=1", "/?key=1"), ("/ws", "/")],
)
def test_the_path_rpc_of_the_gateway_is_the_root_of_the_node(
    folder_and_ca, gateway, path, path_of_server
):
    echo = request(folder_and_ca, gateway, "POST", CHAIN, path)

    assert (echo["method"], echo["path"]) == ("POST", path_of_server)


@pytest.mark.parametrize(
    "content_type", ["application/grpc-web-text", "application/grpc-web+proto"]
)
def test_grpc_web_reaches_the_server_for_browsers(folder_and_ca, gateway, content_type):
    echo = request(folder_and_ca, gateway, "POST", LOGGER, READ, {"Content-Type": content_type})

    assert echo["path"] == READ


def test_a_browsers_preflight_reaches_the_server_for_browsers(folder_and_ca, gateway):
    assert request(folder_and_ca, gateway, "OPTIONS", LOGGER, READ)["method"] == "OPTIONS"


def test_grpc_reaches_its_server_by_the_same_name_and_port(folder_and_ca, gateway):
    folder, _ = folder_and_ca
    credentials = grpc.ssl_channel_credentials((folder / "ca.crt").read_bytes())
    options = [("grpc.ssl_target_name_override", LOGGER), ("grpc.default_authority", LOGGER)]
    address = f"127.0.0.1:{gateway.ports['websecure']}"
    with (
        grpc.secure_channel(address, credentials, options) as channel,
        pytest.raises(grpc.RpcError) as refusal,
    ):
        channel.unary_unary(READ)(b"x", timeout=20)

    # The gRPC server's own answer. The echo server and a missing route answer without this text.
    assert refusal.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert refusal.value.details() == "Method not found!"
