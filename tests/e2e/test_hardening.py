# SPDX-License-Identifier: Apache-2.0
"""How much each service of ours could do if somebody took it over, by systemd's own measure."""

from concurrent.futures import ThreadPoolExecutor

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
# What may have no mount namespace of its own: nobody else would see what is mounted in it.
MOUNTS = {"gridstead-shared-storage.service", "gridstead-cvmfs-mount@.service"}
LIST = ("systemctl", "list-unit-files", "--no-legend", "--plain", "gridstead-*.service")
LOOK = ("systemd-analyze", "security", "--no-pager", f"--threshold={BUDGET}")


def test_no_service_of_ours_is_exposed_more_than_its_budget(lab):
    def exposed(host):
        found = {line.split()[0] for line in lab.run(host, *LIST).stdout.splitlines()}
        units = (found | EVERYWHERE | EXPECTED.get(host, set())) - MOUNTS
        return sorted(
            unit for unit in units if lab.run(host, *LOOK, unit, check=False).returncode != 0
        )

    with ThreadPoolExecutor() as pool:
        found = dict(zip(lab.hosts, pool.map(exposed, lab.hosts), strict=True))

    assert {host: some for host, some in found.items() if some} == {}
