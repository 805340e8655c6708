# SPDX-License-Identifier: Apache-2.0
"""The firewall of every host: each flow of the table is open, whatever is not in it is closed."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.e2e import flows
from tests.e2e.conftest import CHECKOUT, wait_until

RULES = "/etc/gridstead/firewall.nft"
UNDOING = "gridstead-firewall-undo.timer"
SOONER = "[Timer]\nOnActiveSec=\nOnActiveSec=15\n"  # than two minutes
UNLISTED = (3306, 6820, 9419, 9999, 40000)  # between compute nodes 9999 and 40000 are for jobs
LISTENING = ("journalctl", "--unit=flows-listen", "--output=cat", "--boot")
# Listens wherever nothing does yet, until it is stopped; the kernel greets whoever comes.
LISTEN = """
import socket, sys, time
kept = []
for port in sys.argv[2:]:
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind((sys.argv[1], int(port)))
        one.listen(64)
        kept.append(one)
    except OSError as error:
        print(port, error, flush=True)
print("listens", flush=True)
time.sleep(600)
"""
REACH = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def reach(place):
    try:
        socket.create_connection(tuple(place[:2]), timeout=place[2]).close()
    except OSError:
        return False
    return True
with ThreadPoolExecutor(32) as pool:
    print(json.dumps(list(pool.map(reach, json.load(sys.stdin)))))
"""


@pytest.fixture(scope="module")
def table(lab, tmp_path_factory):
    return flows.table(lab, tmp_path_factory.mktemp("flows"))


def is_listed(lab, table, source, host, port):
    """Return whether the table lets a host, or None for somebody outside, come to a port of another
    host.
    """
    return flows.listed(lab, table, source, host, port) != []


@pytest.fixture(scope="module")
def ports(lab, table):
    """Every port that the table speaks of, the ends of its ranges, and some more; all hosts listen
    at all of them.
    """
    ends = {
        int(end)
        for flow in table["flows"]
        for ports in flow.get("tcp", [])
        for end in str(ports).split("-")
    }
    found = sorted(ends | {*UNLISTED})
    for host in lab.hosts:
        argv = ["python3", "-c", LISTEN, lab.address(host), *map(str, found)]
        lab.run(host, "systemd-run", "--quiet", "--collect", "--unit=flows-listen", *argv)
    for host in lab.hosts:
        wait_until(lambda host=host: "listens" in lab.run(host, *LISTENING).stdout, timeout=30)
    yield found
    for host in lab.hosts:
        lab.run(host, "systemctl", "stop", "flows-listen")


def places(lab, table, source, ports):
    """Return where somebody may try to go: host, port, whether it is listed."""
    others = [host for host in lab.hosts if host != source]
    return [
        (host, port, is_listed(lab, table, source, host, port)) for host in others for port in ports
    ]


def asked(lab, tries):
    return json.dumps(
        [(lab.address(host), port, 15 if listed else 1.5) for host, port, listed in tries]
    )


def wrong(tries, reached):
    return [one for one, answer in zip(tries, json.loads(reached), strict=True) if one[2] != answer]


def test_hosts_reach_what_is_listed_and_nothing_else(lab, table, ports):
    tries = {host: places(lab, table, host, ports) for host in lab.hosts}

    def reached_from(host):
        return lab.run(host, "python3", "-c", REACH, input=asked(lab, tries[host])).stdout

    with ThreadPoolExecutor() as pool:
        reached = pool.map(reached_from, tries)
        found = {host: wrong(tries[host], told) for host, told in zip(tries, reached, strict=True)}

    assert found == {host: [] for host in lab.hosts}
    assert not is_listed(lab, table, "compute1", "db", 3306)
    assert is_listed(lab, table, "compute1", "compute2", 40000)


def test_somebody_outside_reaches_what_is_for_anyone_and_nothing_else(lab, table, ports):
    tries = places(lab, table, None, ports)

    told = subprocess.run(
        ["python3", "-c", REACH],
        input=asked(lab, tries),
        capture_output=True,
        text=True,
        check=True,
    )

    assert wrong(tries, told.stdout) == []
    assert {port for _, port, listed in tries if listed} >= {22, 443, 8443}
    assert not is_listed(lab, table, None, "controller", 6817)


def test_rules_that_ansible_does_not_come_back_through_are_taken_away(lab):
    """The connection that brings them stays open all the while; only our own table goes."""
    lab.sh("db", f"cp -a {RULES} /run/firewall.nft; nft add table inet somebody")
    lab.run("db", "systemctl", "edit", "--runtime", "--stdin", UNDOING, input=SOONER)
    argv = [
        "ansible-playbook",
        "playbooks/hosts.yml",
        "--limit=db",
        "--tags=base_configure",
        "--timeout=5",
    ]
    argv += ["--extra-vars", json.dumps({"gridstead_ssh_from": ["192.0.2.9"]})]
    try:
        told = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        wait_until(
            lambda: lab.run("db", "test", "-e", RULES, check=False).returncode == 1, timeout=30
        )

        assert "Stop the firewall's undoing" in told.stdout
        assert "unreachable=1" in told.stdout
        assert lab.sh("db", "nft list tables").splitlines() == ["table inet somebody"]
    finally:
        lab.sh(
            "db",
            f"systemctl revert {UNDOING}; mv /run/firewall.nft {RULES}; systemctl restart gridstead-firewall",
        )

    assert "policy drop" in lab.sh(
        "db", "nft list chain inet gridstead input; nft delete table inet somebody"
    )


def test_the_firewall_stands_again_after_a_flush_by_the_distributions_own(lab):
    stands = ("nft", "list", "chain", "inet", "gridstead", "input")
    lab.run("db", "systemctl", "restart", "nftables")
    try:
        wait_until(lambda: lab.run("db", *stands, check=False).returncode == 0, timeout=15)
    finally:
        lab.sh("db", "systemctl stop nftables; systemctl restart gridstead-firewall")
