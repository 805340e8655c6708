# SPDX-License-Identifier: Apache-2.0
"""Tests of the exposure of services. `systemd-analyze security` rates the exposure."""

from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.site

EXPOSURE_BUDGET = 20  # in tenths: 20 is exposure 2.0 on a scale from 0 to 10
CONTROL_SERVICES = (
    "anvil",
    "job-definitions",
    "ldap-connector",
    "logger",
    "meta-scheduler",
    "supervisor",
)
EXPECTED_UNITS = {
    "controller": {"gridstead-agent.service", "slurmrestd.service"},
    "infra": {
        "gridstead-directory-backup.service",
        "gridstead-storage-firewall.service",
        "gridstead-user-directories.service",
    },
    "login": {"gridstead-authorized-keys.service"},
    "control": {f"gridstead-{name}.service" for name in CONTROL_SERVICES} | {"traefik.service"},
}
UNITS_OF_ALL_HOSTS = {"gridstead-firewall.service", "gridstead-firewall-undo.service"}
# Other processes must see the mounts of these units, so the units cannot use a private mount
# namespace.
MOUNT_UNITS = {"gridstead-shared-storage.service", "gridstead-cvmfs-mount@.service"}
LIST_UNITS = ("systemctl", "list-unit-files", "--no-legend", "--plain", "gridstead-*.service")
RATE_UNIT = ("systemd-analyze", "security", "--no-pager", f"--threshold={EXPOSURE_BUDGET}")


def exposed_units(lab, host):
    """Return the units of a host that exceed the exposure budget."""
    installed_units = {line.split()[0] for line in lab.run(host, *LIST_UNITS).stdout.splitlines()}
    units = (installed_units | UNITS_OF_ALL_HOSTS | EXPECTED_UNITS.get(host, set())) - MOUNT_UNITS
    units_over_budget = []
    for unit in sorted(units):
        rating = lab.run(host, *RATE_UNIT, unit, check=False)
        if rating.returncode != 0:
            units_over_budget.append(unit)
    return units_over_budget


def test_no_service_exceeds_the_exposure_budget(lab):
    with ThreadPoolExecutor() as pool:
        exposed_units_of_hosts = list(pool.map(lambda host: exposed_units(lab, host), lab.hosts))

    assert dict(zip(lab.hosts, exposed_units_of_hosts, strict=True)) == {
        host: [] for host in lab.hosts
    }
