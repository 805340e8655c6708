# SPDX-License-Identifier: Apache-2.0
"""The checks of role traefik before it replaces files, with messages of the real program."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.template import trust_as_template
from tests.fakes.certificates import Authority
from tests.roles.catalogue import ROOT
from tests.roles.conftest import LoadedInventory, trusted
from tests.roles.gateway import (
    BINARY,
    ROLE,
    Gateway,
    checks,
    configuration,
    documents,
    running,
    until,
)

ROUTE = {"name": "a", "hosts": ["a.test"], "servers": ["https://localhost:1"]}
LDAPS = {
    "traefik_ldaps_names": ["ldap.test"],
    "traefik_ldaps_servers": ["localhost:1"],
    "traefik_ldaps_allowed": ["127.0.0.1"],
}
SETTINGS = ROOT / "docs/reference/settings.md"
WITHOUT_ROUTE = {
    "6830": "the agent looks at its caller's certificate itself",
    "6831": "reports of nodes are datagrams",
    "8000": "the site's own nodes read the replica of CVMFS, and objects are signed",
}
ACME = {"traefik_acme_email": "a@b.test", "traefik_acme_server": "https://acme.test/directory"}


@pytest.fixture(scope="module")
def known():
    return checks.known_flags(
        subprocess.run([BINARY, "--help"], check=True, capture_output=True, text=True).stdout
    )


@pytest.fixture
def folder(tmp_path):
    """A folder with the files that the configuration names."""
    files = Authority(tmp_path).issue("gateway", "a.test")
    files.certificate.rename(tmp_path / "tls.crt")
    files.key.rename(tmp_path / "tls.key")
    return tmp_path


@pytest.fixture
def options(site: LoadedInventory, folder):
    """The module's options for a valid route."""
    static, dynamic = documents(
        site,
        folder,
        traefik_ca_file=f"{folder}/ca.crt",
        traefik_routes=[{**ROUTE, "allowed": ["127.0.0.1"]}],
        **LDAPS,
    )
    return asked(folder, static, dynamic)


def asked(folder, static, dynamic):
    return {
        "binary": str(BINARY), "directory": str(folder), "timeout_s": 15,
        "static": json.dumps(static), "static_document": static,
        "dynamic": json.dumps(dynamic), "dynamic_document": dynamic,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"entrypoint": {"web": {"address": ":80"}}},
            "entrypoint is unknown; did you mean entrypoints?",
        ),
        (
            {"entryPoints": {"web": {"adress": ":80"}}},
            "entryPoints.web.adress is unknown; did you mean address?",
        ),
        (
            {"accessLog": {"fields": {"header": {}}}},
            "accessLog.fields.header is unknown; did you mean headers?",
        ),
        ({"log": {"level": {"INFO": True}}}, "log.level.INFO is unknown"),
        ({"api": True}, "api must have keys, not a value"),
        ({"metrics": {"prometheus": None}}, "metrics.prometheus has no value"),
        (
            {"entryPoints": {"web": {"http": {"tls": {"domains": [{"mian": "a"}]}}}}},
            "entryPoints.web.http.tls.domains.mian is unknown; did you mean main?",
        ),
    ],
)
def test_an_unknown_static_key_is_reported(known, wrong, said):
    assert checks.key_faults(wrong, known) == [said]


def test_known_static_keys_are_accepted_in_any_case(known):
    right = {
        "entrypoints": {
            "Any-Name": {
                "ADDRESS": ":80",
                "http": {"tls": {"domains": [{"main": "a", "sans": ["b"]}]}},
            }
        },
        "accessLog": {"fields": {"names": {"StartUTC": "drop"}}},
        "metrics": {"prometheus": {"buckets": [0.1, 1]}},
    }

    assert checks.key_faults(right, known) == []


@pytest.mark.parametrize("variables", [{}, {"traefik_routes": [ROUTE]}, LDAPS, ACME])
def test_the_roles_own_keys_are_known(site: LoadedInventory, folder, known, variables):
    static, _ = documents(site, folder, **variables)

    assert checks.key_faults(static, known) == []


@pytest.mark.parametrize(
    ("route", "rule"),
    [
        ({"hosts": ["a"]}, "Host(`a`)"),
        ({"hosts": ["a", "b"], "paths": []}, "Host(`a`) || Host(`b`)"),
        (
            {"hosts": ["a", "b"], "paths": ["/x", "/y/"]},
            "(Host(`a`) || Host(`b`)) && (Path(`/x`) || PathPrefix(`/y/`))",
        ),
    ],
)
def test_a_route_matches_each_host_with_each_path(site: LoadedInventory, route, rule):
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0])
    templar.available_variables |= {"route": route}

    assert templar.template(trust_as_template("{{ route | gridstead.site.traefik_rule }}")) == rule


@pytest.fixture(scope="module")
def usual(site: LoadedInventory):
    """The variables of the gateway's host in the example inventory."""
    return site.templar(ROLE, site.hosts_of(ROLE)[0])


def failing(usual, **variables):
    """Return the names of the role's failed assertions with changed variables."""
    tasks = trusted(yaml.safe_load((ROLE.path / "tasks/validate.yml").read_text()))
    failed = set()
    for task in tasks:
        templar = usual.copy_with_new_env(available_variables=usual.available_variables | variables)
        conditions = task["ansible.builtin.assert"]["that"]
        conditions = [conditions] if isinstance(conditions, str) else conditions
        failed |= {
            task["name"] for condition in conditions if not templar.evaluate_conditional(condition)
        }
    return failed


def test_the_example_inventorys_variables_are_valid(usual):
    assert failing(usual) == set()


@pytest.mark.parametrize(
    ("wrong", "said"),
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
        (
            {"traefik_routes": [{**ROUTE, "allowed": ["everybody"]}]},
            "Check the allowed networks",
        ),
        ({"traefik_ldaps_allowed": []}, "directory's route"),
        ({"traefik_ldaps_servers": ["infra"]}, "directory's route"),
        ({"traefik_acme_email": "a@b.test"}, "the ACME authority"),
        ({"traefik_metrics_listen": ":8082"}, "Check traefik_metrics_listen"),
    ],
)
def test_an_invalid_variable_is_reported(usual, wrong, said):
    assert [said in name for name in failing(usual, **wrong)] == [True]


def test_every_service_that_listens_has_a_route_or_a_reason(usual):
    groups = {
        "grid": ["g"],
        "control_plane": ["control"],
        "slurm_login": ["login"],
        "directory": ["infra"],
    }
    known = usual.available_variables | {
        "groups": groups,
        "gridstead_log_origins": ["https://portal.test"],
    }
    examples = re.compile(r'^\|.* `\w*listen = "0\.0\.0\.0:(\d+)"` \|$', re.MULTILINE)
    listening = examples.findall(SETTINGS.read_text())

    routes = usual.copy_with_new_env(available_variables=known).template(
        trust_as_template("{{ traefik_routes }}")
    )

    led_to = {server.rpartition(":")[2] for route in routes for server in route["servers"]}
    assert set(listening) - led_to == WITHOUT_ROUTE.keys()


def test_valid_files_are_written_once(options, folder):
    first = configuration.write_files(options, check_mode=False)
    second = configuration.write_files({**options, "binary": "/nonexistent"}, check_mode=False)

    assert (first["changed"], first["static_changed"]) == (True, True)
    assert (folder / "traefik.yml").read_text() == options["static"]
    assert (folder / "dynamic/gridstead.yml").read_text() == options["dynamic"]
    assert (second["changed"], second["static_changed"], second["diff"]) == (False, False, [])


def test_routes_with_acme_are_tested_without_a_request_to_the_ca(site: LoadedInventory, folder):
    static, dynamic = documents(
        site,
        folder,
        traefik_ca_file=f"{folder}/ca.crt",
        traefik_routes=[{**ROUTE, "hosts": ["b.test"]}],
        **ACME,
    )

    assert configuration.write_files(asked(folder, static, dynamic), check_mode=False)["changed"]


def test_check_mode_writes_nothing(options, folder):
    virgin = configuration.write_files({**options, "binary": "/nonexistent"}, check_mode=True)
    installed = configuration.write_files(options, check_mode=True)

    assert virgin["changed"]
    assert installed["changed"]
    assert not (folder / "traefik.yml").exists()


KILLED_IN_A_TRIAL = """
import json, os, signal, sys
import tests.roles.catalogue  # finds the collection
from tests.roles.gateway import configuration

with configuration.trial(json.load(sys.stdin)) as (_, _, process):
    print(process.pid, flush=True)
    signal.sigwait({signal.SIGTERM})
"""


def test_a_trial_ends_when_its_module_is_killed(options, tmp_path):
    places = {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_IN_A_TRIAL], cwd=ROOT, env=os.environ | places,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as module:  # fmt: skip
        try:
            module.stdin.write(json.dumps(options))
            module.stdin.close()
            trial = Path("/proc", str(int(module.stdout.readline())))
            until(
                lambda: b"traefik\0--config" in (trial / "cmdline").read_bytes(),
                lambda: "Traefik does not begin",
            )
        finally:
            module.kill()

    until(lambda: not is_running(trial), lambda: "Traefik still runs")


def is_running(process):
    """Return whether a process runs."""
    try:
        return "\nState:\tZ" not in (process / "status").read_text()
    except OSError:
        return False


def unknown_static_key(static, dynamic):
    static["providerz"] = {}


def a_value_of_another_kind(static, dynamic):
    static["providers"]["file"]["watch"] = "maybe"


def unknown_dynamic_key(static, dynamic):
    dynamic["http"]["routerz"] = {}


def a_rule_that_is_none(static, dynamic):
    dynamic["http"]["routers"]["a"]["rule"] = "Hots(`a.test`)"


def a_door_that_is_not_there(static, dynamic):
    dynamic["tcp"]["routers"]["ldaps"]["entryPoints"] = ["ldap"]


def a_network_that_is_none(static, dynamic):
    dynamic["http"]["middlewares"]["a"]["ipAllowList"]["sourceRange"] = ["999.1.1.1"]


def a_certificate_that_is_not_there(static, dynamic):
    dynamic["tls"]["certificates"][0]["certFile"] = "/nonexistent.crt"


def an_authority_that_is_not_there(static, dynamic):
    dynamic["http"]["serversTransports"]["site"]["rootCAs"] = ["/nonexistent.crt"]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (unknown_static_key, "providerz is unknown; did you mean providers"),
        (a_value_of_another_kind, 'parsing "maybe": invalid syntax'),
        (unknown_dynamic_key, "field not found, node: routerz"),
        (a_rule_that_is_none, "router a@file: "),
        (a_door_that_is_not_there, 'tcpRouter ldaps@file: entryPoint "ldap" doesn\'t exist'),
        (a_network_that_is_none, "middleware a@file: "),
        (a_certificate_that_is_not_there, "Unable to parse certificate"),
        (an_authority_that_is_not_there, "/nonexistent.crt"),
    ],
)
def test_invalid_files_are_refused_and_the_old_files_retained(options, folder, spoil, said):
    (folder / "dynamic").mkdir()
    (folder / "traefik.yml").write_text("old")
    (folder / "dynamic/gridstead.yml").write_text("old")
    spoil(options["static_document"], options["dynamic_document"])

    with pytest.raises(configuration.InvalidConfiguration) as refusal:
        configuration.write_files(options, check_mode=False)

    assert said in str(refusal.value)
    assert (folder / "traefik.yml").read_text() == "old"
    assert (folder / "dynamic/gridstead.yml").read_text() == "old"


def test_other_dynamic_files_are_tested_with_the_roles_file(options, folder):
    (folder / "dynamic").mkdir()
    (folder / "dynamic/own.yml").write_text(
        "http: {routers: {b: {rule: Host(`b.test`), service: nowhere}}}"
    )

    with pytest.raises(configuration.InvalidConfiguration, match="router b@file"):
        configuration.write_files(options, check_mode=False)


@pytest.fixture
def gateway(options, folder):
    with running(folder, options["static_document"], options["dynamic_document"]) as gateway:
        yield gateway


def as_run(options, gateway: Gateway):
    """Return the options with the gateway's ports, without a wait."""
    static = json.loads((gateway.folder / "traefik.yml").read_text())
    return {**options, "static_document": static, "timeout_s": 0}


def test_live_accepts_the_written_configuration(options, gateway):
    configuration.check_live(as_run(options, gateway))


def test_live_reports_a_route_that_is_not_served(options, gateway):
    options["dynamic_document"]["http"]["routers"]["a"]["rule"] = "Host(`other.test`)"

    with pytest.raises(
        configuration.InvalidConfiguration, match=r"^router a is not served as configured$"
    ):
        configuration.check_live(as_run(options, gateway))


def test_live_reports_an_entry_point_that_needs_a_restart(options, gateway):
    live = as_run(options, gateway)
    live["static_document"]["entryPoints"]["websecure"]["address"] = ":1"

    with pytest.raises(
        configuration.InvalidConfiguration,
        match=r"^entry point websecure is not :1; restart Traefik$",
    ):
        configuration.check_live(live)


def test_live_reports_a_later_error(options, gateway):
    (gateway.folder / "dynamic/own.yml").write_text(
        "http: {routers: {b: {rule: Host(`b.test`), service: nowhere}}}"
    )
    until(lambda: "b@file" in (gateway.ask("rawdata") or {}).get("routers", {}), gateway.log)

    with pytest.raises(configuration.InvalidConfiguration, match="router b@file"):
        configuration.check_live(as_run(options, gateway))


def test_live_reports_that_traefik_does_not_answer(options, gateway):
    gateway.process.kill()
    gateway.process.wait()

    with pytest.raises(configuration.InvalidConfiguration, match="does not answer"):
        configuration.check_live(as_run(options, gateway))
