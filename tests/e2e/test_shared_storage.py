# SPDX-License-Identifier: Apache-2.0
"""Tests of the lab's shared storage: its mounts, the rights of root, and its firewall."""

import secrets
import time

import pytest

pytestmark = pytest.mark.hosts

SERVER = "infra"
CLIENTS = ("controller", "login", "compute1", "compute2", "infra")
USER_HOSTS = ("login", "compute1")
MOUNT_POINTS = (
    "/srv/shared",
    "/home/ldap-users",
    "/opt/cache/shared",
    "/opt/cache/persistent",
    "/opt/cache/world-tmp",
)
STORAGE_PORTS = (9419, 9420, 9421, 9422)
PORTS_FOR_MOUNTS = (9421, 9422)  # the other ports are for programs on the server
NOBODY_UID = "65534"  # user nobody

CONNECT_PROGRAM = """
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
    """Connect to a port as a user of a host. Return "connected" or the name of the error."""
    return lab.run(
        host, "python3", "-c", CONNECT_PROGRAM, str(uid), target, str(port)
    ).stdout.strip()


def run_as_nobody(lab, host, *argv):
    return lab.run(
        host,
        "setpriv",
        f"--reuid={NOBODY_UID}",
        f"--regid={NOBODY_UID}",
        "--clear-groups",
        *argv,
        check=False,
    )


@pytest.fixture
def name():
    return f"e2e-{secrets.token_hex(6)}"


@pytest.mark.parametrize("mount_point", MOUNT_POINTS)
def test_storage_is_mounted_everywhere(lab, mount_point):
    for host in CLIENTS:
        listing = lab.run(
            host, "findmnt", "--noheadings", "--output", "SOURCE,OPTIONS", mount_point
        )
        source_and_options = listing.stdout
        assert source_and_options.startswith("mfs#")
        assert "nosuid" in source_and_options
        assert "nodev" in source_and_options


def test_top_directories_belong_to_root(lab):
    for mount_point in MOUNT_POINTS:
        owner_and_mode = lab.run("login", "stat", "-c", "%U %a", mount_point).stdout.strip()
        expected = "root 1777" if mount_point == "/opt/cache/world-tmp" else "root 755"
        assert owner_and_mode == expected, mount_point


def test_a_file_from_one_host_is_visible_on_all_hosts(lab, name):
    path = f"/opt/cache/world-tmp/{name}"
    run_as_nobody(lab, "compute1", "sh", "-c", f"echo hello > {path}")

    try:
        for host in CLIENTS:
            assert lab.run(host, "cat", path).stdout == "hello\n", host
    finally:
        lab.run(SERVER, "rm", "-f", path)


def test_only_root_of_the_storage_host_creates_user_directories(lab, name):
    path = f"/home/ldap-users/{name}"
    exit_codes = [lab.run(host, "mkdir", path, check=False).returncode for host in USER_HOSTS]
    lab.run(SERVER, "install", "-d", "-m", "0700", "-o", NOBODY_UID, "-g", NOBODY_UID, path)
    # Root of the storage host can also create a directory in a private directory of a user.
    lab.run(SERVER, "install", "-d", "-m", "0700", "-o", "300001", "-g", "100000", f"{path}/deeper")

    try:
        assert all(code == 1 for code in exit_codes)
        assert lab.run("login", "stat", "-c", "%u %a", path).stdout.strip() == f"{NOBODY_UID} 700"
    finally:
        lab.run(SERVER, "rm", "-rf", path)


def test_root_of_a_compute_host_cannot_read_a_users_file(lab, name):
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


@pytest.mark.parametrize("port", STORAGE_PORTS)
def test_users_cannot_connect_to_the_storage(lab, port):
    for host in USER_HOSTS:
        assert connect(lab, host, NOBODY_UID, SERVER, port) == "ConnectionRefusedError", host
    expected = "connected" if port in PORTS_FOR_MOUNTS else "ConnectionRefusedError"
    assert connect(lab, "login", 0, SERVER, port) == expected


def test_users_cannot_connect_to_the_relay_of_the_mount(lab):
    """mfsmount opens a relay port and forwards every command from there with the mount's rights."""
    for host in USER_HOSTS:
        listening = lab.sh(host, "ss --no-header --listening --tcp --numeric --processes")
        # The fourth field of a line is the local address and port.
        relays = [line.split()[3] for line in listening.splitlines() if "mfsmount" in line]
        assert relays, f"{host} has no relay: has MooseFS changed?"
        for relay in relays:
            address, port = relay.rsplit(":", 1)
            assert connect(lab, host, NOBODY_UID, address, port) == "ConnectionRefusedError"
            assert connect(lab, host, 0, address, port) == "connected"


def test_hosts_that_are_not_clients_of_the_storage_cannot_connect_to_it(lab):
    for port in STORAGE_PORTS:
        assert connect(lab, "db", 0, SERVER, port) == "ConnectionRefusedError", port


def test_only_root_can_read_the_passwords(lab):
    assert run_as_nobody(lab, "login", "cat", "/etc/gridstead/storage.cfg").returncode != 0
    assert run_as_nobody(lab, SERVER, "cat", "/etc/mfs/mfsexports.cfg").returncode != 0


def test_a_file_lock_of_one_host_excludes_the_other_hosts(lab, name):
    path = f"/opt/cache/world-tmp/{name}"
    lab.run("login", "systemd-run", "--quiet", f"--unit={name}", "flock", path, "sleep", "60")

    try:
        deadline = time.monotonic() + 10
        while lab.run("compute1", "flock", "--nonblock", path, "true", check=False).returncode == 0:
            assert time.monotonic() < deadline, "the other host's lock had no effect"
    finally:
        lab.run("login", "systemctl", "stop", name)
        lab.run(SERVER, "rm", "-f", path)
