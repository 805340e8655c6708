# SPDX-License-Identifier: Apache-2.0
"""What goes from host to host is under TLS, but for the flows that say in the table why they are
not.
"""

import ipaddress
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.e2e import flows

# Shakes hands with whoever is there and says how it went: the version of TLS, "closed" or "no TLS".
SHAKE = """
import json, socket, ssl, sys
from concurrent.futures import ThreadPoolExecutor
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(["h2", "http/1.1"])
def shake(place):
    try:
        connection = socket.create_connection(tuple(place[:2]), timeout=place[2])
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
def table(lab, tmp_path_factory):
    return flows.table(lab, tmp_path_factory.mktemp("flows"))


@pytest.fixture(scope="module")
def open_ports(lab):
    """The ports at which programs of each host wait for others, by host: protocol, number, program."""

    def ports(host):
        lines = lab.sh(
            host, "ss --no-header --tcp --udp --listening --numeric --processes"
        ).splitlines()
        found = set()
        for protocol, _, _, _, local, _, *program in map(str.split, lines):
            at, _, port = local.rpartition(":")
            at = at.strip("[]").partition("%")[0].replace("*", "::")
            if not ipaddress.ip_address(at).is_loopback:
                found.add((protocol, int(port), " ".join(program)))
        return sorted(found)

    with ThreadPoolExecutor() as pool:
        return dict(zip(lab.hosts, pool.map(ports, lab.hosts), strict=True))


def is_plain(lab, table, source, host, port, protocol):
    """Return whether the table says of a port, as it is seen from a host, why it is without TLS."""
    return any("plain" in flow for flow in flows.listed(lab, table, source, host, port, protocol))


def shaken(lab, table, source, places):
    """Return how each place greets a host, or somebody outside."""
    patience = {place: 15 if flows.listed(lab, table, source, *place) else 1.5 for place in places}
    asked = json.dumps([(lab.address(host), port, patience[host, port]) for host, port in places])
    if source:
        told = lab.run(source, "python3", "-c", SHAKE, input=asked).stdout
    else:
        argv = ["python3", "-c", SHAKE]
        told = subprocess.run(argv, input=asked, capture_output=True, text=True, check=True).stdout
    return dict(zip(places, json.loads(told), strict=True))


def test_what_a_host_reaches_of_another_is_under_tls_or_declared(lab, table, open_ports):
    """Every port that somebody listens at, tried from every other host and from outside."""

    def wrong(source):
        places = [
            (host, port)
            for host, ports in open_ports.items()
            for protocol, port, _ in ports
            if host != source
            and protocol == "tcp"
            and not is_plain(lab, table, source, host, port, "tcp")
        ]
        greeted = shaken(lab, table, source, places)
        expected = {"TLSv1.3", "TLSv1.2", "closed"}
        bad = {place: told for place, told in greeted.items() if told not in expected}
        return bad, {port for (_, port), told in greeted.items() if told.startswith("TLS")}

    with ThreadPoolExecutor() as pool:
        found = dict(zip((*lab.hosts, None), pool.map(wrong, (*lab.hosts, None)), strict=True))

    assert {source: bad for source, (bad, _) in found.items() if bad} == {}
    assert set.union(*(seen for _, seen in found.values())) >= {
        443,
        636,
        6830,
        8443,
        8444,
        8445,
        8446,
        8447,
        9443,
    }


def test_datagrams_come_in_only_where_the_table_says_why_they_are_safe(lab, table, open_ports):
    found = {
        (host, port, program)
        for host, ports in open_ports.items()
        for protocol, port, program in ports
        for source in (*lab.hosts, None)
        if protocol == "udp"
        and host != source
        and flows.listed(lab, table, source, host, port, "udp")
        and not is_plain(lab, table, source, host, port, "udp")
    }

    assert found == set()
    assert any(port == 6831 for _, port, _ in open_ports["controller"])
