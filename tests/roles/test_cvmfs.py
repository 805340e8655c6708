# SPDX-License-Identifier: Apache-2.0
"""The files of role cvmfs for the built-in provider and for CERN's packages."""

from __future__ import annotations

import re
import tomllib

import pytest
from ansible.template import trust_as_template
from tests.roles.catalogue import Role
from tests.yaml_files import read_yaml

from gridstead.cli.check_config import settings_models

ROLE = Role("cvmfs")
NAME = "software.example.org"
STRATUM0 = f"http://stratum0.example.org/cvmfs/{NAME}"
# Prefixes of unit options that create a mount namespace, in which other processes do not see the
# mounts of the unit.
NAMESPACE_OPTIONS = (
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
def render_file(site):
    """A function that renders a template for a host of the example, with additional variables."""

    def render(template, host="infra", **variables):
        templar = site.templar(ROLE, host)
        templar.available_variables |= variables
        return templar.template(trust_as_template((ROLE.path / "templates" / template).read_text()))

    return render


@pytest.mark.parametrize(("service", "host"), [("cvmfs", "infra"), ("cvmfs-client", "compute1")])
def test_the_settings_of_both_components_load(render_file, service, host):
    text = render_file(f"etc/gridstead/{service}.toml.j2", host)

    settings = settings_models()[service].model_validate(tomllib.loads(text))

    (repository,) = settings.repositories
    (key_file,) = repository.public_key_files
    assert repository.name == NAME
    assert re.fullmatch(r"/etc/gridstead/cvmfs/.+\.pub", str(key_file))


def test_clients_use_the_publisher_only_if_the_site_has_no_replica(render_file):
    template = "etc/gridstead/cvmfs-client.toml.j2"
    with_replica = tomllib.loads(render_file(template))
    without_replica = tomllib.loads(render_file(template, cvmfs_servers=[]))

    assert with_replica["repositories"][0]["urls"] == [f"http://infra:8000/cvmfs/{NAME}"]
    assert without_replica["repositories"][0]["urls"] == [STRATUM0]


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
    variables = templar.available_variables

    assert templar.template(variables["cvmfs_components"]) == components
    assert templar.template(variables["cvmfs_servers"]) == servers


@pytest.mark.parametrize(
    ("component", "unit"),
    [("replica", "gridstead-cvmfs"), ("client", f"gridstead-cvmfs-mount@{NAME}")],
)
def test_services_older_than_their_settings_or_unit_are_restarted(site, component, unit):
    """The name of a key file depends on its content, so a new key changes the settings."""
    templar = site.templar(ROLE, "infra", cvmfs_components=[component])
    (part,) = templar.template(templar.available_variables["__cvmfs_parts"])
    tasks = read_yaml(ROLE.path / "tasks/builtin/service.yml")

    files_by_unit = {}
    for task in tasks:
        daemon = task["gridstead.site.daemon"]
        files_by_unit[templar.template(trust_as_template(daemon["name"]))] = daemon["reads"]

    assert files_by_unit[unit] == [
        f"/etc/gridstead/{part['settings']}.toml",
        f"/etc/systemd/system/{part['unit']}",
    ]


def test_the_mount_unit_has_no_private_mounts_and_few_capabilities(render_file):
    unit = render_file(
        "etc/systemd/system/gridstead-cvmfs-mount@.service.j2", "compute1"
    ).splitlines()

    assert not any(line.startswith(NAMESPACE_OPTIONS) for line in unit)
    assert "Before=slurmd.service" in unit
    assert "CapabilityBoundingSet=CAP_SYS_ADMIN CAP_SETUID CAP_SETGID" in unit
    assert {
        "KillMode=process",
        "NoNewPrivileges=yes",
        "SystemCallFilter=@system-service @mount",
    } <= set(unit)


def test_cerns_client_gets_its_servers_and_public_keys(render_file):
    cern = {"cvmfs_provider": "cern", "host": "compute1"}
    default = render_file("etc/cvmfs/default.local.j2", **cern).splitlines()
    conf = render_file("etc/cvmfs/config.d/repository.conf.j2", **cern)
    direct = render_file("etc/cvmfs/config.d/repository.conf.j2", cvmfs_servers=[], **cern)

    assert {
        f"CVMFS_REPOSITORIES={NAME}",
        'CVMFS_HTTP_PROXY="DIRECT"',
        "CVMFS_QUOTA_LIMIT=10240",
    } <= set(default)
    assert 'CVMFS_SERVER_URL="http://infra:80/cvmfs/@fqrn@"\n' in conf
    assert "CVMFS_PUBLIC_KEY=/etc/cvmfs/keys/" in conf
    assert f'CVMFS_SERVER_URL="{STRATUM0}"\n' in direct


def test_cerns_packages_come_from_cern_and_are_verified_by_its_key(render_file):
    lines = render_file(
        "etc/apt/sources.list.d/cernvm.sources.j2", cvmfs_provider="cern"
    ).splitlines()

    assert lines[1:] == [
        "Types: deb",
        "URIs: http://cvmrepo.s3.cern.ch/cvmrepo/apt",
        "Suites: trixie-prod",
        "Components: main",
        "Signed-By: /etc/apt/keyrings/cernvm.asc",
    ]


def test_verification_checks_the_mount_point(site):
    templar = site.templar(ROLE, "compute1")

    check = templar.template(templar.available_variables["__cvmfs_mount_check"])

    assert check["expect"] == [f"^/cvmfs/{NAME}$"]
