# SPDX-License-Identifier: Apache-2.0
"""Services, systemd and CERN's programs can read the files of role cvmfs. CERN's programs are not
run.
"""

from __future__ import annotations

import tomllib

import pytest
import yaml
from ansible.template import trust_as_template
from tests.roles.catalogue import roles

from gridstead.cli.check_config import settings_models

ROLE = next(role for role in roles() if role.name == "cvmfs")
NAME = "software.example.org"
STRATUM0 = f"http://stratum0.example.org/cvmfs/{NAME}"
# Options of a unit that give it a mount namespace, in which nobody else would see what it mounts.
OWN_MOUNTS = (
    "Protect",
    "Private",
    "ReadOnly",
    "ReadWrite",
    "Inaccessible",
    "Bind",
    "TemporaryFileSystem",
    "Dynamic",
)


@pytest.fixture
def written(site):
    """Return a rendered template of the role on a host of the example, with changed variables."""

    def render(template, host="infra", **variables):
        templar = site.templar(ROLE, host)
        templar.available_variables |= variables
        return templar.template(trust_as_template((ROLE.path / "templates" / template).read_text()))

    return render


@pytest.mark.parametrize(("service", "host"), [("cvmfs", "infra"), ("cvmfs-client", "compute1")])
def test_the_settings_of_both_components_load(written, service, host):
    settings = settings_models()[service].model_validate(
        tomllib.loads(written(f"etc/gridstead/{service}.toml.j2", host))
    )

    (repository,) = settings.repositories
    (key,) = map(str, repository.public_key_files)
    assert (repository.name, key[:21], key[-4:]) == (NAME, "/etc/gridstead/cvmfs/", ".pub")


def test_clients_use_the_replica_or_else_the_publisher(written):
    template = "etc/gridstead/cvmfs-client.toml.j2"
    with_replica, without = (
        tomllib.loads(written(template, **more)) for more in ({}, {"cvmfs_servers": []})
    )

    assert with_replica["repositories"][0]["urls"] == [f"http://infra:8000/cvmfs/{NAME}"]
    assert without["repositories"][0]["urls"] == [STRATUM0]


@pytest.mark.parametrize(
    ("host", "provider", "components", "servers"),
    [
        ("infra", "builtin", ["replica"], ["http://infra:8000/cvmfs"]),
        ("compute1", "builtin", ["client"], ["http://infra:8000/cvmfs"]),
        ("compute1", "cern", ["client"], ["http://infra:80/cvmfs"]),
        ("login", "builtin", [], ["http://infra:8000/cvmfs"]),
    ],
)
def test_groups_decide_which_hosts_replicate_and_which_mount(
    site, host, provider, components, servers
):
    templar = site.templar(ROLE, host)
    templar.available_variables |= {"cvmfs_provider": provider}
    given = templar.available_variables

    assert templar.template(given["cvmfs_components"]) == components
    assert templar.template(given["cvmfs_servers"]) == servers


@pytest.mark.parametrize(
    ("component", "unit"),
    [("replica", "gridstead-cvmfs"), ("client", f"gridstead-cvmfs-mount@{NAME}")],
)
def test_services_older_than_their_settings_or_unit_are_restarted(site, component, unit):
    """The name of a key file depends on its content, so that another key changes the settings."""
    templar = site.templar(ROLE, "infra", cvmfs_components=[component])
    (part,) = templar.template(templar.available_variables["__cvmfs_parts"])
    tasks = yaml.safe_load((ROLE.path / "tasks/builtin/service.yml").read_text())

    settings = {
        templar.template(trust_as_template(task["gridstead.site.daemon"]["name"])): task[
            "gridstead.site.daemon"
        ]["reads"]
        for task in tasks
    }

    assert settings[unit] == [
        f"/etc/gridstead/{part['settings']}.toml",
        f"/etc/systemd/system/{part['unit']}",
    ]


def test_the_mount_unit_has_no_private_mounts_and_few_capabilities(written):
    unit = written("etc/systemd/system/gridstead-cvmfs-mount@.service.j2", "compute1").splitlines()

    assert [line for line in unit if line.startswith(OWN_MOUNTS)] == []
    assert "Before=slurmd.service" in unit
    assert "CapabilityBoundingSet=CAP_SYS_ADMIN CAP_SETUID CAP_SETGID" in unit
    assert {
        "KillMode=process",
        "NoNewPrivileges=yes",
        "SystemCallFilter=@system-service @mount",
    } <= set(unit)


def test_cerns_client_gets_its_servers_and_public_keys(written):
    cern = {"cvmfs_provider": "cern", "host": "compute1"}
    default = written("etc/cvmfs/default.local.j2", **cern).splitlines()
    conf = written("etc/cvmfs/config.d/repository.conf.j2", **cern)
    direct = written("etc/cvmfs/config.d/repository.conf.j2", cvmfs_servers=[], **cern)

    assert {
        f"CVMFS_REPOSITORIES={NAME}",
        'CVMFS_HTTP_PROXY="DIRECT"',
        "CVMFS_QUOTA_LIMIT=10240",
    } <= set(default)
    assert 'CVMFS_SERVER_URL="http://infra:80/cvmfs/@fqrn@"\n' in conf
    assert "CVMFS_PUBLIC_KEY=/etc/cvmfs/keys/" in conf
    assert f'CVMFS_SERVER_URL="{STRATUM0}"\n' in direct


def test_cerns_packages_come_from_cern_and_are_verified_by_its_key(written):
    lines = written("etc/apt/sources.list.d/cernvm.sources.j2", cvmfs_provider="cern").splitlines()

    assert lines[1:] == [
        "Types: deb",
        "URIs: http://cvmrepo.s3.cern.ch/cvmrepo/apt",
        "Suites: trixie-prod",
        "Components: main",
        "Signed-By: /etc/apt/keyrings/cernvm.asc",
    ]


def test_verification_checks_the_mount_point(site):
    templar = site.templar(ROLE, "compute1")

    look = templar.template(templar.available_variables["__cvmfs_mount_check"])

    assert look["expect"] == [f"^/cvmfs/{NAME}$"]
