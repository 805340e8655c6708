# SPDX-License-Identifier: Apache-2.0
"""Tests of the lab's gateway: the routes of the services, and the clients that it refuses."""

import contextlib
import http.client
import json
import socket
import ssl
import subprocess

import grpc
import pytest
from tests.e2e.conftest import CHECKOUT

from gridstead.proto.logger_pb2 import ReadRequest
from gridstead.proto.logger_pb2_grpc import LoggerAPIStub
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest
from gridstead.proto.sbatchapi_pb2_grpc import AuthAPIStub
from gridstead.proto.supervisor_pb2 import FetchAuthorizedKeysRequest
from gridstead.proto.supervisor_pb2_grpc import SshAPIStub

pytestmark = pytest.mark.hosts

HOST = "control"
DOMAIN = "gridstead.internal"
HTTPS, GRPC, LDAPS, METRICS = 443, 9443, 636, 8082
TRAEFIK_API = 8081  # open only to the host itself
# The highest exposure level that `systemd-analyze security` may report. An unrestricted service has
# level 10.
MAX_EXPOSURE = 2.0

# These programs run on a host of the site with the services' Python. WHO_AM_I_PROGRAM prints the
# DN as which the directory authenticates the client. FETCH_KEYS_PROGRAM prints the authorized keys
# that the supervisor returns.
WHO_AM_I_PROGRAM = f"""
import ssl, sys
from ldap3 import Connection, Server, Tls
name = "ldap.{DOMAIN}"
ca = "/etc/gridstead/pki/ca.crt"
tls = Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=ca, valid_names=[name], sni=name)
server = Server("{HOST}", port={LDAPS}, use_ssl=True, tls=tls, connect_timeout=10)
account = "uid=sssd,ou=services,dc=gridstead,dc=internal"
with Connection(server, account, sys.stdin.read(), auto_bind=True) as connection:
    print(connection.extend.standard.who_am_i())
"""
FETCH_KEYS_PROGRAM = f"""
import grpc
from gridstead.proto.supervisor_pb2 import FetchAuthorizedKeysRequest
from gridstead.proto.supervisor_pb2_grpc import SshAPIStub
name = "supervisor.{DOMAIN}"
credentials = grpc.ssl_channel_credentials(open("/etc/gridstead/pki/ca.crt", "rb").read())
options = [("grpc.ssl_target_name_override", name), ("grpc.default_authority", name)]
with grpc.secure_channel("{HOST}:{GRPC}", credentials, options) as channel:
    print(SshAPIStub(channel).FetchAuthorizedKeys(FetchAuthorizedKeysRequest(), timeout=10))
"""


class GatewayClient:
    """A client that connects to the gateway from this machine, which is not a host of the site."""

    def __init__(self, lab):
        self.address = lab.address(HOST)
        self.ca = lab.secrets / "pki/ca.crt"

    def open_tls(self, port, name):
        """Return a TLS connection to a port of the gateway, with ``name`` as server name (SNI)."""
        plain = socket.create_connection((self.address, port), timeout=10)
        try:
            return ssl.create_default_context(cafile=self.ca).wrap_socket(
                plain, server_hostname=name
            )
        except OSError:
            plain.close()
            raise

    def request(self, method, name, path, body=None, *, port=HTTPS):
        """Send an HTTPS request, and return the status and the text of the response."""
        connection = http.client.HTTPSConnection(name)
        with contextlib.closing(connection):
            connection.sock = self.open_tls(port, name)
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def channel(self, name):
        """Return a gRPC channel to the gateway, with ``name`` as server name."""
        credentials = grpc.ssl_channel_credentials(self.ca.read_bytes())
        options = [("grpc.ssl_target_name_override", name), ("grpc.default_authority", name)]
        return grpc.secure_channel(f"{self.address}:{GRPC}", credentials, options)


@pytest.fixture(scope="module")
def gateway(lab):
    return GatewayClient(lab)


def test_the_job_definition_service_answers_graphql(gateway):
    status, text = gateway.request(
        "POST",
        f"job-definitions.{DOMAIN}",
        "/graphql",
        json.dumps({"query": "{ __schema { queryType { name } } }"}),
    )

    assert status == 200
    assert json.loads(text)["data"]["__schema"]["queryType"]["name"] == "Query"


def test_the_job_definition_service_answers_grpc(gateway):
    with gateway.channel(f"job-definitions.{DOMAIN}") as channel:
        assert AuthAPIStub(channel).Challenge(ChallengeRequest(), timeout=10).challenge


def test_the_logger_refuses_a_reader_without_a_signature(gateway):
    with gateway.channel(f"logger.{DOMAIN}") as channel, pytest.raises(grpc.RpcError) as refusal:
        list(LoggerAPIStub(channel).Read(ReadRequest(), timeout=10))

    assert refusal.value.code() in {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNAUTHENTICATED,
    }


def test_the_queue_of_pending_jobs_is_public(gateway):
    status, text = gateway.request("GET", f"queue.{DOMAIN}", "/pending")

    assert status == 200
    assert isinstance(json.loads(text), dict)


def test_the_directory_answers_with_its_own_certificate(lab):
    password = (lab.secrets / "directory-sssd").read_text().strip()

    answer = lab.run(
        "login", "/opt/gridstead/venv/bin/python", "-c", WHO_AM_I_PROGRAM, input=password
    )

    assert answer.stdout.strip() == "dn: uid=sssd,ou=services,dc=gridstead,dc=internal"


def test_login_hosts_fetch_the_supervisors_keys(lab):
    assert (
        "ssh-ed25519"
        in lab.run("login", "/opt/gridstead/venv/bin/python", "-c", FETCH_KEYS_PROGRAM).stdout
    )


def test_http_is_redirected_to_https(gateway):
    connection = http.client.HTTPConnection(gateway.address, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/graphql", headers={"Host": f"job-definitions.{DOMAIN}"})
        answer = connection.getresponse()
        answer.read()

    assert answer.status == 301
    assert answer.headers["Location"] == f"https://job-definitions.{DOMAIN}/graphql"


@pytest.mark.parametrize("port", [HTTPS, GRPC, LDAPS, METRICS])
def test_an_unknown_server_name_is_refused(gateway, port):
    with pytest.raises(OSError, match=r"UNRECOGNIZED_NAME|EOF|reset"):
        gateway.open_tls(port, f"other.{DOMAIN}")


def test_a_client_outside_the_site_cannot_use_directory_ssh_keys_or_metrics(gateway):
    with pytest.raises(OSError, match=r"EOF|reset"):
        gateway.open_tls(LDAPS, f"ldap.{DOMAIN}")
    with (
        gateway.channel(f"supervisor.{DOMAIN}") as channel,
        pytest.raises(grpc.RpcError) as refusal,
    ):
        SshAPIStub(channel).FetchAuthorizedKeys(FetchAuthorizedKeysRequest(), timeout=10)

    assert refusal.value.code() == grpc.StatusCode.PERMISSION_DENIED
    assert gateway.request("GET", HOST, "/metrics", port=METRICS) == (403, "Forbidden")


def test_operator_endpoints_have_no_route(gateway):
    assert gateway.request("GET", f"job-definitions.{DOMAIN}", "/metrics")[0] == 404
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((gateway.address, TRAEFIK_API), timeout=10)


def test_the_gateways_metrics_count_its_requests(lab):
    url = f"https://{HOST}:{METRICS}/metrics"
    text = lab.sh(HOST, f"curl -sS --cacert /etc/gridstead/pki/ca.crt {url}")

    assert 'router="job-definitions@file"' in text


def test_the_gateway_has_only_the_capability_to_bind_ports(lab):
    status = lab.sh(HOST, "cat /proc/$(systemctl show --property=MainPID --value traefik)/status")
    # The last line contains "Overall exposure level for traefik.service: 1.6 OK".
    summary = lab.sh(HOST, "systemd-analyze security --no-pager traefik.service | tail -n 1")
    exposure = summary.partition("traefik.service:")[2].split()[0]

    assert "CapEff:\t0000000000000400" in status  # CAP_NET_BIND_SERVICE
    owner = lab.sh(HOST, "stat -c %U /proc/$(systemctl show --property=MainPID --value traefik)")
    assert owner.strip() == "traefik"
    assert float(exposure) <= MAX_EXPOSURE, summary


def run_tasks(host, *tasks, folder, variables):
    """Run tasks on one host and return the exit code and the output.

    Args:
        host: The name of the host.
        tasks: Ansible tasks, or names of entry points of role traefik.
        folder: The folder for the playbook.
        variables: The variables of the playbook.
    """
    play_tasks = []
    for task in tasks:
        if isinstance(task, str):
            role = {"name": "gridstead.site.traefik", "tasks_from": task}
            play_tasks.append({"ansible.builtin.import_role": role})
        else:
            play_tasks.append(task)
    file = folder / "play.yml"
    file.write_text(json.dumps([{"hosts": host, "gather_facts": False, "tasks": play_tasks}]))
    argv = ["ansible-playbook", file, "-e", json.dumps(variables)]
    result = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout


def test_an_unknown_traefik_key_stops_the_role_before_it_writes(lab, tmp_path):
    stat_files = "stat -c '%i %Y' /etc/traefik/traefik.yml /etc/traefik/dynamic/gridstead.yml"
    files_before = lab.sh(HOST, stat_files)

    exit_code, output = run_tasks(
        HOST,
        "configure",
        folder=tmp_path,
        variables={"traefik_config": {"entryPoint": {"web": {"address": ":81"}}}},
    )

    assert exit_code != 0
    assert "entryPoint is unknown; did you mean entrypoints" in output
    assert lab.sh(HOST, stat_files) == files_before


def test_the_role_installs_traefik_from_an_archive_by_checksum(lab, tmp_path):
    """The test uses host db, because it is not a gateway.

    The archive contains a shell script instead of Traefik.
    """
    lab.sh(
        "db",
        "cd /var/tmp; printf '#!/bin/sh\\necho small\\n' >traefik; chmod 755 traefik; "
        "tar czf traefik.tar.gz traefik",
    )
    digest = lab.sh("db", "sha256sum /var/tmp/traefik.tar.gz")[:64]
    archive = {"traefik_binary": "", "traefik_archive_url": "file:///var/tmp/traefik.tar.gz"}
    check_program_tasks = [
        {"ansible.builtin.command": {"argv": ["/usr/local/bin/traefik"]}, "register": "run_result"},
        {"ansible.builtin.assert": {"that": "run_result.stdout == 'small'"}},
    ]

    variables = archive | {"traefik_archive_checksum": f"sha256:{'0' * 64}"}
    exit_code, output = run_tasks("db", "install", folder=tmp_path, variables=variables)
    assert exit_code != 0
    assert "The checksum for" in output

    variables = archive | {"traefik_archive_checksum": f"sha256:{digest}"}
    tasks = ("validate", "install", *check_program_tasks)
    exit_code, output = run_tasks("db", *tasks, folder=tmp_path, variables=variables)
    lab.sh(
        "db",
        "userdel traefik; rm -r /var/tmp/traefik /var/tmp/traefik.tar.gz /usr/local/bin/traefik "
        "/etc/traefik /var/cache/gridstead/traefik",
    )
    assert exit_code == 0, output
