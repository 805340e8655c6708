# SPDX-License-Identifier: Apache-2.0
"""The exposure of each of our services, as `systemd-analyze security` rates it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.site

BUDGET = 20  # tenths: 2.0 of 10
CONTROL = ("anvil", "job-definitions", "ldap-connector", "logger", "meta-scheduler", "supervisor")
EXPECTED = {
    "controller": {"gridstead-agent.service", "slurmrestd.service"},
    "infra": {
        "gridstead-directory-backup.service",
        "gridstead-storage-firewall.service",
        "gridstead-user-directories.service",
    },
    "login": {"gridstead-authorized-keys.service"},
    "control": {f"gridstead-{name}.service" for name in CONTROL} | {"traefik.service"},
}
EVERYWHERE = {"gridstead-firewall.service", "gridstead-firewall-undo.service"}
# These units must mount in the host's namespace, so that other processes see the mount. They cannot
# use a private mount namespace.
MOUNTS = {"gridstead-shared-storage.service", "gridstead-cvmfs-mount@.service"}
LIST = ("systemctl", "list-unit-files", "--no-legend", "--plain", "gridstead-*.service")
RATE = ("systemd-analyze", "security", "--no-pager", f"--threshold={BUDGET}")


def exposed_units(lab, host):
    """Return the host's units whose exposure is above the budget."""
    installed = {line.split()[0] for line in lab.run(host, *LIST).stdout.splitlines()}
    units = (installed | EVERYWHERE | EXPECTED.get(host, set())) - MOUNTS
    return [
        unit for unit in sorted(units) if lab.run(host, *RATE, unit, check=False).returncode != 0
    ]


def test_no_service_exceeds_the_exposure_budget(lab):
    with ThreadPoolExecutor() as pool:
        exposed = list(pool.map(lambda host: exposed_units(lab, host), lab.hosts))

    assert dict(zip(lab.hosts, exposed, strict=True)) == {host: [] for host in lab.hosts}
