# SPDX-License-Identifier: Apache-2.0
"""What site.yml leaves behind on a small lab: services, their doors, and one job through Slurm."""

import pytest

UNITS = {
    "control": (
        "mariadb", "munge", "slurmdbd", "slurmctld", "slurmrestd", "sssd", "gridstead-anvil", "gridstead-agent",
        "gridstead-job-definitions", "gridstead-logger", "gridstead-meta-scheduler", "gridstead-ldap-connector",
        "gridstead-supervisor", "traefik",
    ),
    "infra": ("munge", "sackd", "sssd", "moosefs-master", "moosefs-chunkserver", "gridstead-user-directories"),
    "compute1": ("munge", "slurmd", "sssd"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "unit"), [(name, unit) for name, units in UNITS.items() for unit in units]
)
def test_a_service_runs_now_and_after_a_boot(on, name, unit):
    service = on(name).service(unit)

    assert service.is_running
    assert service.is_enabled


@pytest.mark.parametrize("name", UNITS)
def test_no_unit_of_a_host_has_failed(on, name):
    assert on(name).check_output("systemctl list-units --failed --plain --no-legend") == ""


@pytest.mark.parametrize("name", UNITS)
def test_all_hosts_share_one_munge_key(on, name):
    sealed = on("control").check_output("munge --no-input")

    assert on(name).run(f"echo '{sealed}' | unmunge > /dev/null").rc == 0


def test_the_node_is_idle_as_the_login_host_sees_it(on):
    assert on("infra").check_output("sinfo --noheader --format=%N:%T") == "compute1:idle"


def test_accounting_knows_the_cluster(on):
    assert (
        on("control").check_output("sacctmgr --noheader --parsable2 show cluster format=cluster")
        == "gridstead"
    )


def test_a_qos_limits_gpus_from_the_first_run(on):
    shown = on("control").check_output(
        "sacctmgr --noheader --parsable2 show qos short format=MaxTRESPerUser,MaxWall"
    )

    assert shown == "cpu=64,gres/gpu=2|04:00:00"


def test_slurmrestd_has_no_network_port(on):
    assert not [
        line for line in on("control").socket.get_listening_sockets() if line.endswith(":6820")
    ]


@pytest.mark.parametrize("name", UNITS)
def test_every_host_sees_the_shared_files(on, name):
    assert on(name).mount_point("/srv/shared").exists


def test_a_file_written_on_the_storage_host_is_seen_on_the_node(on):
    on("infra").check_output("date > /srv/shared/.seen && sync")

    written = on("infra").check_output("cat /srv/shared/.seen")

    assert on("compute1").check_output("cat /srv/shared/.seen") == written
    on("infra").check_output("rm /srv/shared/.seen")


@pytest.mark.parametrize("name", UNITS)
def test_the_sites_authority_signed_every_certificate(on, name):
    command = "cd /etc/gridstead/pki && for c in *.crt; do openssl verify -CAfile ca.crt $c || exit 1; done"

    assert on(name).run(command).rc == 0


def test_the_chain_is_reached_from_its_own_host_only(on):
    assert on("control").run("nc -z -w 2 127.0.0.1 8545").rc == 0
    assert on("infra").run("nc -z -w 2 control 8545").rc != 0
