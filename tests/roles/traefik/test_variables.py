# SPDX-License-Identifier: Apache-2.0
"""The variables of role traefik: their validation, and the routes that they define."""

import re

import pytest
from ansible.template import trust_as_template
from tests.roles.catalogue import ROOT
from tests.roles.conftest import LoadedInventory, trust_templates
from tests.roles.traefik.gateway import BINARY, ROLE, ROUTE
from tests.yaml_files import read_yaml

SETTINGS = ROOT / "docs/reference/settings.md"
# The ports of services for which the gateway has no route, with the reasons.
WITHOUT_ROUTE = {
    "6830": "the agent verifies its clients' certificates itself",
    "6831": "nodes send their reports as datagrams",
    "8000": "only the site's nodes read the replica of CVMFS, and its objects are signed",
}


@pytest.mark.parametrize(
    ("route", "rule"),
    [
        ({"hosts": ["a"]}, "Host(`a`)"),
        ({"hosts": ["a", "b"], "paths": []}, "Host(`a`) || Host(`b`)"),
        (
            {"hosts": ["a", "b"], "paths": ["/x", "/y/"]},
            "(Host(`a`) || Host(`b`)) && (Path(`/x`) || PathPrefix(`/y/`))",
        ),
        (
            {"hosts": ["a"], "paths": ["/x/"], "kind": "grpc-web"},
            (
                "(Host(`a`)) && (PathPrefix(`/x/`)) && "
                "(HeaderRegexp(`Content-Type`, `^application/grpc-web`) || Method(`OPTIONS`))"
            ),
        ),
    ],
)
def test_a_route_matches_its_hosts_paths_and_content_types(site: LoadedInventory, route, rule):
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0])
    templar.available_variables |= {"route": route}

    assert templar.template(trust_as_template("{{ route | gridstead.site.traefik_rule }}")) == rule


@pytest.fixture(scope="module")
def templar(site: LoadedInventory):
    """A templar with the variables of the gateway's host in the example inventory."""
    return site.templar(ROLE, site.hosts_of(ROLE)[0])


def failed_assertions(templar, **variables):
    """Return the names of the tasks of validate.yml that fail with these variables."""
    tasks = trust_templates(read_yaml(ROLE.path / "tasks/validate.yml"))
    templar = templar.copy_with_new_env(available_variables=templar.available_variables | variables)
    names = []
    for task in tasks:
        conditions = task["ansible.builtin.assert"]["that"]
        if isinstance(conditions, str):
            conditions = [conditions]
        if not all(templar.evaluate_conditional(condition) for condition in conditions):
            names.append(task["name"])
    return names


def test_the_example_inventorys_variables_are_valid(templar):
    assert failed_assertions(templar) == []


@pytest.mark.parametrize(
    ("variables", "task_name"),
    [
        ({"traefik_archive_url": ""}, "Check traefik_binary"),
        ({"traefik_binary": str(BINARY)}, "Check traefik_binary"),
        ({"traefik_archive_checksum": "sha256:1"}, "Check traefik_binary"),
        ({"traefik_archive_url": "http://a/b.tar.gz"}, "Check traefik_binary"),
        ({"traefik_routes": [ROUTE, ROUTE]}, "Check traefik_routes"),
        ({"traefik_routes": [{**ROUTE, "name": "metrics"}]}, "Check traefik_routes"),
        ({"traefik_routes": [{**ROUTE, "hosts": []}]}, "Check traefik_routes"),
        ({"traefik_routes": [{**ROUTE, "hosts": ["a`) || Host(`b"]}]}, "Check traefik_routes"),
        ({"traefik_routes": [{**ROUTE, "paths": ["x"]}]}, "Check traefik_routes"),
        ({"traefik_routes": [{**ROUTE, "servers": ["control:8443"]}]}, "Check traefik_routes"),
        ({"traefik_routes": [{**ROUTE, "strip_prefix": "rpc"}]}, "Check traefik_routes"),
        ({"traefik_routes": [{**ROUTE, "strip_prefix": "/rpc/"}]}, "Check traefik_routes"),
        (
            {"traefik_routes": [{**ROUTE, "allowed": ["everybody"]}]},
            "Check the networks that may use each route",
        ),
        ({"traefik_ldaps_allowed": []}, "route to the directory server"),
        ({"traefik_ldaps_servers": ["infra"]}, "route to the directory server"),
        ({"traefik_acme_email": "a@b.test"}, "the ACME authority"),
        ({"traefik_metrics_listen": ":8082"}, "Check traefik_metrics_listen"),
    ],
)
def test_an_invalid_variable_is_reported(templar, variables, task_name):
    (failed_task,) = failed_assertions(templar, **variables)

    assert task_name in failed_task


def test_every_service_that_listens_has_a_route_or_a_reason_for_no_route(templar):
    variables = {
        "groups": {
            "grid": ["g"],
            "control_plane": ["control"],
            "slurm_login": ["login"],
            "directory": ["infra"],
        },
    }
    templar = templar.copy_with_new_env(available_variables=templar.available_variables | variables)
    examples = re.compile(r'^\|.* `\w*listen = "0\.0\.0\.0:(\d+)"` \|$', re.MULTILINE)
    listening_ports = examples.findall(SETTINGS.read_text())

    routes = templar.template(trust_as_template("{{ traefik_routes }}"))

    served_ports = set()
    for route in routes:
        served_ports |= {server.rpartition(":")[2] for server in route["servers"]}
    assert set(listening_ports) - served_ports == WITHOUT_ROUTE.keys()
