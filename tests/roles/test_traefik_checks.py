# SPDX-License-Identifier: Apache-2.0
"""The checks of role traefik before and after the role replaces Traefik's files.

The tests run a real Traefik.

Before: module traefik_configuration runs a trial, which is a Traefik with the new files on free
ports. After: the live check compares the running Traefik with the files.
"""

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
from tests.roles.conftest import LoadedInventory, trust_templates
from tests.roles.gateway import (
    BINARY,
    ROLE,
    Gateway,
    checks,
    configuration,
    render_configuration,
    run_traefik,
    wait_until,
)

ROUTE = {"name": "a", "hosts": ["a.test"], "servers": ["https://localhost:1"]}
LDAPS = {
    "traefik_ldaps_names": ["ldap.test"],
    "traefik_ldaps_servers": ["localhost:1"],
    "traefik_ldaps_allowed": ["127.0.0.1"],
}
SETTINGS = ROOT / "docs/reference/settings.md"
# The ports of services for which the gateway has no route, with the reasons.
WITHOUT_ROUTE = {
    "6830": "the agent verifies its clients' certificates itself",
    "6831": "nodes send their reports as datagrams",
    "8000": "only the site's nodes read the replica of CVMFS, and its objects are signed",
}
ACME = {"traefik_acme_email": "a@b.test", "traefik_acme_server": "https://acme.test/directory"}


@pytest.fixture(scope="module")
def known_flags():
    """The flags that the installed Traefik accepts."""
    result = subprocess.run([BINARY, "--help"], check=True, capture_output=True, text=True)
    return checks.known_flags(result.stdout)


@pytest.fixture
def folder(tmp_path):
    """A folder with the certificate and the key that the configuration names."""
    files = Authority(tmp_path).issue("gateway", "a.test")
    files.certificate.rename(tmp_path / "tls.crt")
    files.key.rename(tmp_path / "tls.key")
    return tmp_path


@pytest.fixture
def options(site: LoadedInventory, folder):
    """The module's options for a valid route."""
    static, dynamic = render_configuration(
        site,
        folder,
        traefik_ca_file=f"{folder}/ca.crt",
        traefik_routes=[{**ROUTE, "allowed": ["127.0.0.1"]}],
        **LDAPS,
    )
    return module_options(folder, static, dynamic)


def module_options(folder, static, dynamic):
    """Return the options of module traefik_configuration."""
    return {
        "binary": str(BINARY), "directory": str(folder), "timeout_s": 15,
        "static": json.dumps(static), "static_document": static,
        "dynamic": json.dumps(dynamic), "dynamic_document": dynamic,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("static", "message"),
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
def test_an_unknown_static_key_is_reported(known_flags, static, message):
    assert checks.key_faults(static, known_flags) == [message]


def test_known_static_keys_are_accepted_in_upper_and_lower_case(known_flags):
    static = {
        "entrypoints": {
            "Any-Name": {
                "ADDRESS": ":80",
                "http": {"tls": {"domains": [{"main": "a", "sans": ["b"]}]}},
            }
        },
        "accessLog": {"fields": {"names": {"StartUTC": "drop"}}},
        "metrics": {"prometheus": {"buckets": [0.1, 1]}},
    }

    assert checks.key_faults(static, known_flags) == []


@pytest.mark.parametrize("variables", [{}, {"traefik_routes": [ROUTE]}, LDAPS, ACME])
def test_the_keys_that_the_role_writes_are_known(
    site: LoadedInventory, folder, known_flags, variables
):
    static, _ = render_configuration(site, folder, **variables)

    assert checks.key_faults(static, known_flags) == []


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
def templar(site: LoadedInventory):
    """A templar with the variables of the gateway's host in the example inventory."""
    return site.templar(ROLE, site.hosts_of(ROLE)[0])


def failed_assertions(templar, **variables):
    """Return the names of the tasks of validate.yml that fail with these variables."""
    tasks = trust_templates(yaml.safe_load((ROLE.path / "tasks/validate.yml").read_text()))
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
        "gridstead_log_origins": ["https://portal.test"],
    }
    templar = templar.copy_with_new_env(available_variables=templar.available_variables | variables)
    examples = re.compile(r'^\|.* `\w*listen = "0\.0\.0\.0:(\d+)"` \|$', re.MULTILINE)
    listening_ports = examples.findall(SETTINGS.read_text())

    routes = templar.template(trust_as_template("{{ traefik_routes }}"))

    served_ports = set()
    for route in routes:
        served_ports |= {server.rpartition(":")[2] for server in route["servers"]}
    assert set(listening_ports) - served_ports == WITHOUT_ROUTE.keys()


def test_a_second_call_does_not_write_unchanged_files(options, folder):
    first = configuration.write_files(options, check_mode=False)
    # Without a change there is no trial, so the second call does not need Traefik.
    second = configuration.write_files({**options, "binary": "/nonexistent"}, check_mode=False)

    assert first["changed"]
    assert first["static_changed"]
    assert (folder / "traefik.yml").read_text() == options["static"]
    assert (folder / "dynamic/gridstead.yml").read_text() == options["dynamic"]
    assert not second["changed"]
    assert not second["static_changed"]
    assert second["diff"] == []


def test_routes_with_acme_are_tested_without_a_request_to_the_ca(site: LoadedInventory, folder):
    static, dynamic = render_configuration(
        site,
        folder,
        traefik_ca_file=f"{folder}/ca.crt",
        traefik_routes=[{**ROUTE, "hosts": ["b.test"]}],
        **ACME,
    )

    assert configuration.write_files(module_options(folder, static, dynamic), check_mode=False)[
        "changed"
    ]


def test_check_mode_writes_nothing(options, folder):
    """Check mode also works without Traefik, because a new host has no Traefik in check mode."""
    without_traefik = configuration.write_files(
        {**options, "binary": "/nonexistent"}, check_mode=True
    )
    with_traefik = configuration.write_files(options, check_mode=True)

    assert without_traefik["changed"]
    assert with_traefik["changed"]
    assert not (folder / "traefik.yml").exists()


PROGRAM_WITH_TRIAL = """
import json, os, signal, sys
import tests.roles.catalogue  # lets Python find the collection
from tests.roles.gateway import configuration

with configuration.trial(json.load(sys.stdin)) as (_, _, process):
    print(process.pid, flush=True)
    signal.sigwait({signal.SIGTERM})
"""


def test_a_trial_ends_when_its_module_is_killed(options, tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM_WITH_TRIAL],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as module:
        try:
            module.stdin.write(json.dumps(options))
            module.stdin.close()
            trial = Path("/proc", str(int(module.stdout.readline())))
            wait_until(
                lambda: b"traefik\0--config" in (trial / "cmdline").read_bytes(),
                lambda: "Traefik does not start",
            )
        finally:
            module.kill()

    wait_until(lambda: not is_running(trial), lambda: "Traefik still runs")


def is_running(proc_folder):
    """Return whether the process of a folder of /proc exists and is not a zombie."""
    try:
        return "\nState:\tZ" not in (proc_folder / "status").read_text()
    except OSError:
        return False


def add_unknown_static_key(static, dynamic):
    static["providerz"] = {}


def set_value_of_wrong_type(static, dynamic):
    static["providers"]["file"]["watch"] = "maybe"


def add_unknown_dynamic_key(static, dynamic):
    dynamic["http"]["routerz"] = {}


def set_invalid_rule(static, dynamic):
    dynamic["http"]["routers"]["a"]["rule"] = "Hots(`a.test`)"


def set_unknown_entry_point(static, dynamic):
    dynamic["tcp"]["routers"]["ldaps"]["entryPoints"] = ["ldap"]


def set_invalid_network(static, dynamic):
    dynamic["http"]["middlewares"]["a"]["ipAllowList"]["sourceRange"] = ["999.1.1.1"]


def set_missing_certificate(static, dynamic):
    dynamic["tls"]["certificates"][0]["certFile"] = "/nonexistent.crt"


def set_missing_ca(static, dynamic):
    dynamic["http"]["serversTransports"]["site"]["rootCAs"] = ["/nonexistent.crt"]


@pytest.mark.parametrize(
    ("make_invalid", "message"),
    [
        (add_unknown_static_key, "providerz is unknown; did you mean providers"),
        (set_value_of_wrong_type, 'parsing "maybe": invalid syntax'),
        (add_unknown_dynamic_key, "field not found, node: routerz"),
        (set_invalid_rule, "router a@file: "),
        (set_unknown_entry_point, 'tcpRouter ldaps@file: entryPoint "ldap" doesn\'t exist'),
        (set_invalid_network, "middleware a@file: "),
        (set_missing_certificate, "Unable to parse certificate"),
        (set_missing_ca, "/nonexistent.crt"),
    ],
)
def test_invalid_files_are_refused_and_the_old_files_retained(
    options, folder, make_invalid, message
):
    (folder / "dynamic").mkdir()
    (folder / "traefik.yml").write_text("old")
    (folder / "dynamic/gridstead.yml").write_text("old")
    make_invalid(options["static_document"], options["dynamic_document"])

    with pytest.raises(configuration.InvalidConfiguration) as refusal:
        configuration.write_files(options, check_mode=False)

    assert message in str(refusal.value)
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
    """A running Traefik with the configuration of the options."""
    with run_traefik(folder, options["static_document"], options["dynamic_document"]) as gateway:
        yield gateway


def live_options(options, gateway: Gateway):
    """Return the options of a check of the running gateway: its ports, and a timeout of 0 s."""
    static = json.loads((gateway.folder / "traefik.yml").read_text())
    return {**options, "static_document": static, "timeout_s": 0}


def test_the_live_check_accepts_the_written_configuration(options, gateway):
    configuration.check_live(live_options(options, gateway))


def test_the_live_check_reports_a_route_that_is_not_served(options, gateway):
    options["dynamic_document"]["http"]["routers"]["a"]["rule"] = "Host(`other.test`)"

    with pytest.raises(
        configuration.InvalidConfiguration, match=r"^router a is not served as configured$"
    ):
        configuration.check_live(live_options(options, gateway))


def test_the_live_check_reports_an_entry_point_that_needs_a_restart(options, gateway):
    changed_options = live_options(options, gateway)
    changed_options["static_document"]["entryPoints"]["websecure"]["address"] = ":1"

    with pytest.raises(
        configuration.InvalidConfiguration,
        match=r"^entry point websecure is not :1; restart Traefik$",
    ):
        configuration.check_live(changed_options)


def test_the_live_check_reports_an_error_in_a_file_that_was_added_later(options, gateway):
    (gateway.folder / "dynamic/own.yml").write_text(
        "http: {routers: {b: {rule: Host(`b.test`), service: nowhere}}}"
    )
    wait_until(
        lambda: "b@file" in (gateway.query_api("rawdata") or {}).get("routers", {}),
        gateway.read_log,
    )

    with pytest.raises(configuration.InvalidConfiguration, match="router b@file"):
        configuration.check_live(live_options(options, gateway))


def test_the_live_check_reports_that_traefik_does_not_answer(options, gateway):
    gateway.process.kill()
    gateway.process.wait()

    with pytest.raises(configuration.InvalidConfiguration, match="does not answer"):
        configuration.check_live(live_options(options, gateway))
