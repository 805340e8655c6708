# SPDX-License-Identifier: Apache-2.0
"""Test the services, ports and files of a site that site.yml has set up on a small lab."""

import itertools

import pytest

UNITS = {
    "control": (
        "mariadb", "munge", "slurmdbd", "slurmctld", "slurmrestd", "sssd", "gridstead-anvil",
        "gridstead-agent", "gridstead-job-definitions", "gridstead-logger",
        "gridstead-meta-scheduler", "gridstead-ldap-connector", "gridstead-supervisor", "traefik",
    ),
    "infra": (
        "munge", "sackd", "sssd", "moosefs-master", "moosefs-chunkserver",
        "gridstead-user-directories",
    ),
    "compute1": ("munge", "slurmd", "sssd"),
}  # fmt: skip
HOSTS_AND_UNITS = []
for host_name, host_units in UNITS.items():
    HOSTS_AND_UNITS += itertools.product([host_name], host_units)


@pytest.mark.parametrize(("host", "unit"), HOSTS_AND_UNITS)
def test_every_service_runs_and_is_enabled(get_host, host, unit):
    service = get_host(host).service(unit)

    assert service.is_running
    assert service.is_enabled


@pytest.mark.parametrize("host", UNITS)
def test_no_unit_has_failed(get_host, host):
    assert get_host(host).check_output("systemctl list-units --failed --plain --no-legend") == ""


@pytest.mark.parametrize("host", UNITS)
def test_all_hosts_have_the_same_munge_key(get_host, host):
    credential = get_host("control").check_output("munge --no-input")

    assert get_host(host).run(f"echo '{credential}' | unmunge > /dev/null").rc == 0


def test_sinfo_on_the_login_host_lists_the_node_as_idle(get_host):
    is_idle = "sinfo --noheader --format=%N:%T | grep -qx compute1:idle"
    get_host("infra").check_output(f"timeout 60 sh -c 'until {is_idle}; do sleep 1; done'")


def test_the_cluster_is_in_the_accounting(get_host):
    command = "sacctmgr --noheader --parsable2 show cluster format=cluster"
    assert get_host("control").check_output(command) == "gridstead"


def test_the_first_run_sets_the_gpu_limit_of_the_qos(get_host):
    limits = get_host("control").check_output(
        "sacctmgr --noheader --parsable2 show qos short format=MaxTRESPerUser,MaxWall"
    )

    assert limits == "cpu=64,gres/gpu=2|04:00:00"


def test_slurmrestd_has_no_network_port(get_host):
    sockets = get_host("control").socket.get_listening_sockets()

    for socket in sockets:
        assert not socket.endswith(":6820")


@pytest.mark.parametrize("host", UNITS)
def test_every_host_mounts_the_shared_storage(get_host, host):
    assert get_host(host).mount_point("/srv/shared").exists


def test_a_file_of_the_storage_host_can_be_read_on_the_node(get_host):
    get_host("infra").check_output("date > /srv/shared/.seen && sync")

    written_text = get_host("infra").check_output("cat /srv/shared/.seen")

    assert get_host("compute1").check_output("cat /srv/shared/.seen") == written_text
    get_host("infra").check_output("rm /srv/shared/.seen")


@pytest.mark.parametrize("host", UNITS)
def test_every_certificate_is_signed_by_the_sites_ca(get_host, host):
    command = (
        "cd /etc/gridstead/pki && "
        "for c in *.crt; do openssl verify -CAfile ca.crt $c || exit 1; done"
    )

    assert get_host(host).run(command).rc == 0


def test_the_chain_accepts_connections_only_from_its_host(get_host):
    assert get_host("control").run("nc -z -w 2 127.0.0.1 8545").rc == 0
    assert get_host("infra").run("nc -z -w 2 control 8545").rc != 0
