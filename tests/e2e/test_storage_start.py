# SPDX-License-Identifier: Apache-2.0
"""The services that need the shared storage start after a mount that failed at first."""

from tests.e2e.conftest import wait_until

HOST = "infra"  # runs the service of the users' directories
MOUNT = "gridstead-shared-storage.service"
DIRECTORIES = "gridstead-user-directories.service"
DROP_IN = f"/run/systemd/system/{MOUNT}.d/e2e.conf"
SERVER_ANSWERS = "/run/e2e-storage-answers"  # the mount fails until this file exists


def test_services_start_after_a_mount_that_failed_at_first(lab):
    """At a boot of all hosts, the storage server may answer later than the mount is started."""
    settings = f"[Service]\\nExecStartPre=/usr/bin/test -e {SERVER_ANSWERS}\\n"
    lab.sh(HOST, f"mkdir -p {DROP_IN.rpartition('/')[0]}; printf '{settings}' >{DROP_IN}")
    try:
        lab.run(HOST, "systemctl", "daemon-reload")
        lab.run(HOST, "systemctl", "stop", DIRECTORIES, MOUNT)
        lab.run(HOST, "systemctl", "start", "--no-block", DIRECTORIES)
        wait_until(lambda: count_of_restarts(lab) >= 1, timeout=30)

        lab.run(HOST, "touch", SERVER_ANSWERS)

        wait_until(lambda: is_active(lab, MOUNT) and is_active(lab, DIRECTORIES), timeout=60)
    finally:
        lab.run(HOST, "rm", "-rf", DROP_IN.rpartition("/")[0], SERVER_ANSWERS)
        lab.run(HOST, "systemctl", "daemon-reload")
        lab.run(HOST, "systemctl", "start", MOUNT, DIRECTORIES)


def count_of_restarts(lab):
    """Return how often systemd has retried the mount."""
    return int(lab.run(HOST, "systemctl", "show", "-p", "NRestarts", "--value", MOUNT).stdout)


def is_active(lab, unit):
    return lab.run(HOST, "systemctl", "is-active", unit, check=False).stdout.strip() == "active"
