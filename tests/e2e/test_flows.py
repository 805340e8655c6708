# SPDX-License-Identifier: Apache-2.0
"""Tests that the firewalls allow the connections in the table of flows, and no others."""

import itertools
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.e2e import flows
from tests.e2e.conftest import CHECKOUT, wait_until

pytestmark = pytest.mark.site

RULES_FILE = "/etc/gridstead/firewall.nft"
UNDO_TIMER = "gridstead-firewall-undo.timer"
SHORT_TIMER = "[Timer]\nOnActiveSec=\nOnActiveSec=15\n"  # instead of two minutes
# No flow lists these ports, except the flow of jobs between compute nodes (ports 1024 to 65535).
UNLISTED_PORTS = (3306, 6820, 9419, 9999, 40000)
READ_LISTEN_LOG = ("journalctl", "--unit=flows-listen", "--output=cat", "--boot")
# Listens on each free port until the unit is stopped. The kernel accepts the connections.
LISTEN_PROGRAM = """
import socket, sys, time
listeners = []
for port in sys.argv[2:]:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((sys.argv[1], int(port)))
        listener.listen(64)
        listeners.append(listener)
    except OSError as error:
        print(port, error, flush=True)
print("listens", flush=True)
time.sleep(600)
"""
# This program tries to connect to each target (address, port and timeout in seconds). It prints for
# each target whether the target is reachable.
CONNECT_PROGRAM = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def reach(target):
    address, port, timeout_s = target
    try:
        socket.create_connection((address, port), timeout=timeout_s).close()
    except OSError:
        return False
    return True
with ThreadPoolExecutor(32) as pool:
    print(json.dumps(list(pool.map(reach, json.load(sys.stdin)))))
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return flows.read_flow_table(tmp_path_factory.mktemp("flows"))


def is_listed(lab, table, source, host, port):
    """Return whether the table allows connections from a source to a port of a host.

    Args:
        source: A host of the lab, or None for a machine outside of the site.
    """
    return flows.matching_flows(lab, table, source, host, port) != []


@pytest.fixture(scope="module")
def ports(lab, table):
    """Return the ports of the table, the ends of its ranges, and unlisted ports.

    All hosts listen on all of these ports.
    """
    tested_ports = set(UNLISTED_PORTS)
    for flow in table["flows"]:
        for port_range in flow.get("tcp", []):
            tested_ports.update(map(int, str(port_range).split("-")))
    for host in lab.hosts:
        argv = ["python3", "-c", LISTEN_PROGRAM, lab.address(host)]
        argv += map(str, sorted(tested_ports))
        lab.run(host, "systemd-run", "--quiet", "--collect", "--unit=flows-listen", *argv)
    for host in lab.hosts:
        wait_until(
            lambda host=host: "listens" in lab.run(host, *READ_LISTEN_LOG).stdout, timeout=30
        )
    yield sorted(tested_ports)
    for host in lab.hosts:
        lab.run(host, "systemctl", "stop", "flows-listen")


def targets_of(lab, table, source, ports):
    """Return the targets to which a source tries to connect.

    A target consists of the host, the port, and whether the table allows the connection.
    """
    targets = []
    for host, port in itertools.product(lab.hosts, ports):
        if host != source:
            targets.append((host, port, is_listed(lab, table, source, host, port)))
    return targets


def to_input(lab, targets):
    """Return the input of CONNECT_PROGRAM: address, port and timeout (s) of each target."""
    connections = []
    for host, port, is_allowed in targets:
        # Wait long only for the targets that must be reachable.
        timeout_s = 15 if is_allowed else 1.5
        connections.append((lab.address(host), port, timeout_s))
    return json.dumps(connections)


def wrong_targets(targets, output):
    """Return the targets that are reachable but not allowed, or allowed but not reachable."""
    wrong_answers = []
    for target, is_reachable in zip(targets, json.loads(output), strict=True):
        _, _, is_allowed = target
        if is_allowed != is_reachable:
            wrong_answers.append(target)
    return wrong_answers


def test_hosts_reach_only_the_listed_ports(lab, table, ports):
    def differences_from(host):
        targets = targets_of(lab, table, host, ports)
        program = lab.run(host, "python3", "-c", CONNECT_PROGRAM, input=to_input(lab, targets))
        return wrong_targets(targets, program.stdout)

    with ThreadPoolExecutor() as pool:
        results = dict(zip(lab.hosts, pool.map(differences_from, lab.hosts), strict=True))

    assert results == {host: [] for host in lab.hosts}
    assert not is_listed(lab, table, "compute1", "db", 3306)
    assert is_listed(lab, table, "compute1", "compute2", 40000)


def test_machines_outside_reach_only_the_public_ports(lab, table, ports):
    targets = targets_of(lab, table, None, ports)

    program = subprocess.run(
        ["python3", "-c", CONNECT_PROGRAM],
        input=to_input(lab, targets),
        capture_output=True,
        text=True,
        check=True,
    )

    assert wrong_targets(targets, program.stdout) == []
    assert {port for _, port, is_allowed in targets if is_allowed} >= {22, 443, 8443}
    assert not is_listed(lab, table, None, "controller", 6817)


def test_firewall_rules_that_lock_ansible_out_are_removed(lab):
    """The new rules keep Ansible's open SSH connection, but reject a second connection.

    Ansible therefore cannot stop the timer that removes the new rules. The timer removes only the
    table of nftables that contains the new rules.
    """
    lab.sh("db", f"cp -a {RULES_FILE} /run/firewall.nft; nft add table inet somebody")
    lab.run("db", "systemctl", "edit", "--runtime", "--stdin", UNDO_TIMER, input=SHORT_TIMER)
    argv = [
        "ansible-playbook",
        "playbooks/hosts.yml",
        "--limit=db",
        "--tags=base_configure",
        "--timeout=5",
    ]
    argv += ["--extra-vars", json.dumps({"gridstead_ssh_from": ["192.0.2.9"]})]
    try:
        result = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        wait_until(
            lambda: lab.run("db", "test", "-e", RULES_FILE, check=False).returncode == 1, timeout=30
        )

        assert "Stop the timer that removes the new firewall rules" in result.stdout
        assert "unreachable=1" in result.stdout
        assert lab.sh("db", "nft list tables").splitlines() == ["table inet somebody"]
    finally:
        lab.sh(
            "db",
            f"systemctl revert {UNDO_TIMER}; mv /run/firewall.nft {RULES_FILE}; "
            "systemctl restart gridstead-firewall",
        )

    assert "policy drop" in lab.sh(
        "db", "nft list chain inet gridstead input; nft delete table inet somebody"
    )


def test_the_firewall_is_restored_after_a_restart_of_nftables(lab):
    list_rules = ("nft", "list", "chain", "inet", "gridstead", "input")
    lab.run("db", "systemctl", "restart", "nftables")
    try:
        wait_until(lambda: lab.run("db", *list_rules, check=False).returncode == 0, timeout=15)
    finally:
        lab.sh("db", "systemctl stop nftables; systemctl restart gridstead-firewall")
