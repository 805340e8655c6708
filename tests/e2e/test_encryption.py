# SPDX-License-Identifier: Apache-2.0
"""Tests that traffic between hosts uses TLS, except for flows with a reason in the flow table."""

import ipaddress
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.e2e import flows

pytestmark = pytest.mark.site

# Attempts a TLS handshake with each target (address, port and timeout in seconds). Prints the TLS
# version, "closed" or "no TLS" for each target.
HANDSHAKE_PROGRAM = """
import json, socket, ssl, sys
from concurrent.futures import ThreadPoolExecutor
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(["h2", "http/1.1"])
def shake(target):
    address, port, timeout_s = target
    try:
        connection = socket.create_connection((address, port), timeout=timeout_s)
    except OSError:
        return "closed"
    try:
        with context.wrap_socket(connection) as secured:
            return secured.version()
    except OSError as error:
        return f"no TLS: {error}"
with ThreadPoolExecutor(32) as pool:
    print(json.dumps(list(pool.map(shake, json.load(sys.stdin)))))
"""


@pytest.fixture(scope="module")
def flow_table(tmp_path_factory):
    return flows.read_flow_table(tmp_path_factory.mktemp("flows"))


@pytest.fixture(scope="module")
def open_ports(lab):
    """Return the protocol, number and program of each listening port, by host."""

    def ports(host):
        listing = lab.sh(host, "ss --no-header --tcp --udp --listening --numeric --processes")
        listening = set()
        for line in listing.splitlines():
            protocol, _, _, _, local, _, *program = line.split()
            address, _, port = local.rpartition(":")
            # Remove the brackets of an IPv6 address and the interface. ss prints * for any address.
            address = address.strip("[]").partition("%")[0].replace("*", "::")
            if not ipaddress.ip_address(address).is_loopback:
                listening.add((protocol, int(port), " ".join(program)))
        return sorted(listening)

    with ThreadPoolExecutor() as pool:
        return dict(zip(lab.hosts, pool.map(ports, lab.hosts), strict=True))


def has_reason(lab, flow_table, source, host, port, protocol):
    """Return whether the table contains a reason for a flow without TLS to a port."""
    flows_to_port = flows.matching_flows(lab, flow_table, source, host, port, protocol)
    return any("plain" in flow for flow in flows_to_port)


def handshake_results(lab, flow_table, source, targets):
    """Return the result of a TLS handshake from a source with each target, by target.

    Args:
        source: A host of the lab, or None for this machine, which is outside of the site.
        targets: Pairs of host and port.
    """
    program_input = []
    for host, port in targets:
        # Wait long only for the ports that the table allows.
        timeout_s = 15 if flows.matching_flows(lab, flow_table, source, host, port) else 1.5
        program_input.append((lab.address(host), port, timeout_s))
    text = json.dumps(program_input)
    if source:
        output = lab.run(source, "python3", "-c", HANDSHAKE_PROGRAM, input=text).stdout
    else:
        argv = ["python3", "-c", HANDSHAKE_PROGRAM]
        output = subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout
    return dict(zip(targets, json.loads(output), strict=True))


def ports_of(open_ports, protocol, source):
    """Yield host, port and program of each listening port of the other hosts."""
    for host, ports in open_ports.items():
        for port_protocol, port, program in ports:
            if host != source and port_protocol == protocol:
                yield host, port, program


def test_every_reachable_tcp_port_uses_tls_or_has_a_reason(lab, flow_table, open_ports):
    """The test tries every listening port from every other host and from outside of the site."""
    sources = (*lab.hosts, None)

    def results_from(source):
        targets = []
        for host, port, _ in ports_of(open_ports, "tcp", source):
            if not has_reason(lab, flow_table, source, host, port, "tcp"):
                targets.append((host, port))
        return handshake_results(lab, flow_table, source, targets)

    with ThreadPoolExecutor() as pool:
        results = dict(zip(sources, pool.map(results_from, sources), strict=True))

    allowed_answers = {"TLSv1.3", "TLSv1.2", "closed"}
    unencrypted_ports, tls_ports = [], set()
    for source, results_by_target in results.items():
        for (host, port), result in results_by_target.items():
            if result not in allowed_answers:
                unencrypted_ports.append((source, host, port, result))
            elif result != "closed":
                tls_ports.add(port)
    assert unencrypted_ports == []
    assert tls_ports >= {443, 636, 6830, 8443, 8444, 8445, 8446, 8447, 9443}


def test_every_reachable_udp_port_has_a_reason(lab, flow_table, open_ports):
    without_reason = set()
    for source in (*lab.hosts, None):
        for host, port, program in ports_of(open_ports, "udp", source):
            is_open = flows.matching_flows(lab, flow_table, source, host, port, "udp")
            if is_open and not has_reason(lab, flow_table, source, host, port, "udp"):
                without_reason.add((host, port, program))

    assert without_reason == set()
    assert any(port == 6831 for _, port, _ in open_ports["controller"])
