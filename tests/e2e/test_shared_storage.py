# SPDX-License-Identifier: Apache-2.0
"""The shared storage of the standing lab: mounted everywhere, root in one place only, closed to
users.
"""

import secrets
import time

import pytest

pytestmark = pytest.mark.hosts

SERVER = "infra"
CLIENTS = ("controller", "login", "compute1", "compute2", "infra")
USER_HOSTS = ("login", "compute1")
PLACES = (
    "/srv/shared",
    "/home/ldap-users",
    "/opt/cache/shared",
    "/opt/cache/persistent",
    "/opt/cache/world-tmp",
)
PORTS = (9419, 9420, 9421, 9422)
MOUNTED_BY = (9421, 9422)  # the others are for programs of the server itself
# The first person who is nobody in particular.
USER = "65534"

CONNECT = """
import os, socket, sys
uid, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.setgroups([])
os.setuid(uid)
try:
    socket.create_connection((host, port), timeout=3).close()
    print("connected")
except OSError as error:
    print(type(error).__name__)
"""


def connect(lab, host, uid, target, port):
    """Return what a user of a host gets from a port: "connected" or the error's name."""
    return lab.run(host, "python3", "-c", CONNECT, str(uid), target, str(port)).stdout.strip()


def as_user(lab, host, *argv):
    return lab.run(
        host, "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *argv, check=False
    )


@pytest.fixture
def name():
    return f"e2e-{secrets.token_hex(6)}"


@pytest.mark.parametrize("place", PLACES)
def test_storage_is_mounted_everywhere(lab, place):
    for host in CLIENTS:
        source = lab.run(
            host, "findmnt", "--noheadings", "--output", "SOURCE,OPTIONS", place
        ).stdout
        assert source.startswith("mfs#")
        assert "nosuid" in source
        assert "nodev" in source


def test_top_directories_belong_to_root(lab):
    modes = {
        place: lab.run("login", "stat", "-c", "%U %a", place).stdout.strip() for place in PLACES
    }

    assert dict.fromkeys(PLACES, "root 755") | {"/opt/cache/world-tmp": "root 1777"} == modes


def test_file_of_one_host_is_seen_on_all(lab, name):
    path = f"/opt/cache/world-tmp/{name}"
    as_user(lab, "compute1", "sh", "-c", f"echo hello > {path}")

    try:
        assert {host: lab.run(host, "cat", path).stdout for host in CLIENTS} == dict.fromkeys(
            CLIENTS, "hello\n"
        )
    finally:
        lab.run(SERVER, "rm", "-f", path)


def test_root_makes_user_directories_on_the_storage_host_only(lab, name):
    path = f"/home/ldap-users/{name}"
    refused = {host: lab.run(host, "mkdir", path, check=False).returncode for host in USER_HOSTS}
    lab.run(SERVER, "install", "-d", "-m", "0700", "-o", USER, "-g", USER, path)
    lab.run(SERVER, "install", "-d", "-m", "0700", "-o", "300001", "-g", "100000", f"{path}/deeper")

    try:
        assert dict.fromkeys(USER_HOSTS, 1) == refused
        assert lab.run("login", "stat", "-c", "%u %a", path).stdout.strip() == f"{USER} 700"
    finally:
        lab.run(SERVER, "rm", "-rf", path)


def test_root_of_a_compute_host_reads_no_users_file(lab, name):
    path = f"/home/ldap-users/{name}"
    lab.run(SERVER, "install", "-d", "-m", "0700", "-o", "300001", "-g", "100000", path)
    lab.run(
        SERVER, "sh", "-c", f"echo private > {path}/secret && chown 300001:100000 {path}/secret"
    )

    try:
        assert lab.run("compute1", "cat", f"{path}/secret", check=False).returncode != 0
        assert lab.run("compute1", "rm", "-rf", path, check=False).returncode != 0
        assert lab.run(SERVER, "cat", f"{path}/secret").stdout == "private\n"
    finally:
        lab.run(SERVER, "rm", "-rf", path)


@pytest.mark.parametrize("port", PORTS)
def test_users_cannot_connect_to_the_storage(lab, port):
    assert {host: connect(lab, host, USER, SERVER, port) for host in USER_HOSTS} == dict.fromkeys(
        USER_HOSTS, "ConnectionRefusedError"
    )
    assert connect(lab, "login", 0, SERVER, port) == (
        "connected" if port in MOUNTED_BY else "ConnectionRefusedError"
    )


def test_users_cannot_connect_to_the_relay_of_the_mount(lab):
    """The relay passes commands on with the rights of the mount, for whatever user they name."""
    for host in USER_HOSTS:
        listening = lab.run(
            host, "ss", "--no-header", "--listening", "--tcp", "--numeric", "--processes"
        ).stdout
        relays = [line.split()[3] for line in listening.splitlines() if "mfsmount" in line]
        assert relays, f"{host} has no relay: has MooseFS changed?"
        for address, port in (relay.rsplit(":", 1) for relay in relays):
            assert connect(lab, host, USER, address, port) == "ConnectionRefusedError"
            assert connect(lab, host, 0, address, port) == "connected"


def test_hosts_that_are_no_clients_cannot_connect_at_all(lab):
    assert [connect(lab, "db", 0, SERVER, port) for port in PORTS] == [
        "ConnectionRefusedError"
    ] * len(PORTS)


def test_passwords_are_readable_by_root_alone(lab):
    assert as_user(lab, "login", "cat", "/etc/gridstead/storage.cfg").returncode != 0
    assert as_user(lab, SERVER, "cat", "/etc/mfs/mfsexports.cfg").returncode != 0


def test_locks_exclude_across_hosts(lab, name):
    path = f"/opt/cache/world-tmp/{name}"
    lab.run("login", "systemd-run", "--quiet", f"--unit={name}", "flock", path, "sleep", "60")

    try:
        deadline = time.monotonic() + 10
        while lab.run("compute1", "flock", "--nonblock", path, "true", check=False).returncode == 0:
            assert time.monotonic() < deadline, "the lock of the other host was never seen"
    finally:
        lab.run("login", "systemctl", "stop", name)
        lab.run(SERVER, "rm", "-f", path)
