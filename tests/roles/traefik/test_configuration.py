# SPDX-License-Identifier: Apache-2.0
"""Module traefik_configuration checks new files of Traefik before it replaces the old files.

It compares the keys with the flags of the installed Traefik. Then it runs a trial: a real Traefik
with the new files on free ports.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.roles.catalogue import ROOT
from tests.roles.conftest import LoadedInventory
from tests.roles.traefik.gateway import (
    ACME,
    BINARY,
    LDAPS,
    ROUTE,
    checks,
    configuration,
    module_options,
    render_configuration,
    wait_until,
)


@pytest.fixture(scope="module")
def known_flags():
    """The flags that the installed Traefik accepts."""
    result = subprocess.run([BINARY, "--help"], check=True, capture_output=True, text=True)
    return checks.known_flags(result.stdout)


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
from tests.roles.traefik.gateway import configuration

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
