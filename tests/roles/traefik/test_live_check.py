# SPDX-License-Identifier: Apache-2.0
"""The live check of role traefik compares a real, running Traefik with the role's files."""

import json

import pytest
from tests.roles.traefik.gateway import Gateway, configuration, run_traefik, wait_until


@pytest.fixture
def gateway(options, folder):
    """A running Traefik with the configuration of the options."""
    with run_traefik(folder, options["static_document"], options["dynamic_document"]) as gateway:
        yield gateway


def live_options(options, gateway: Gateway):
    """Return options for a check of the running gateway.

    They have the static document of the gateway, which contains its ports, and a timeout of 0 s.
    """
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
