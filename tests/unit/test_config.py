# SPDX-License-Identifier: Apache-2.0
"""Reading settings files, and the errors about wrong settings."""

from decimal import Decimal

import pytest

from gridstead.config import (
    SERVICES,
    ClientSettings,
    JobDefinitionsSettings,
    LoggerSettings,
    Slurm,
    Storage,
    load,
    to_wei,
)
from gridstead.errors import ConfigError

CLIENT = """
job_definitions_url = "https://control:8443/graphql"
[chain]
rpc_url = "http://127.0.0.1:8545"
chain_id = 179188
contract = "0xABabABabABabABabABabABabABabABabABabABab"
confirmations = 6
[wallet]
keystore_file = "/k"
password_file = "/p"
[logger]
endpoint = "control:8445"
ca_file = "/ca"
"""


def settings(tmp_path, text):
    file = tmp_path / "settings.toml"
    file.write_text(text)
    return file


def load_error(model, file):
    """Return the error that a settings file causes."""
    with pytest.raises(ConfigError) as caught:
        load(model, file)
    return caught.value


def test_address_is_loaded_in_lower_case(tmp_path):
    assert load(ClientSettings, settings(tmp_path, CLIENT)).chain.contract == "0x" + "ab" * 20


@pytest.mark.parametrize(
    ("before", "after", "reported"),
    [
        ("confirmations", "confirmation", "chain.confirmation: unknown key"),
        ("chain_id = 179188\n", "", "chain.chain_id: missing"),
        ("0xABab", "0xZZ", "chain.contract"),
        ('"control:8445"', '"control"', "logger.endpoint"),
        ('"control:8445"', '"https://control:8445"', "logger.endpoint"),
        ("179188", "-1", "chain.chain_id"),
        ("confirmations = 6", "confirmations = 0", "chain.confirmations"),
        ("confirmations = 6", "confirmations = 65", "chain.confirmations"),
        ("http://127", "ftp://127", "chain.rpc_url"),
    ],
)
def test_wrong_setting_is_reported(tmp_path, before, after, reported):
    error = load_error(ClientSettings, settings(tmp_path, CLIENT.replace(before, after)))

    assert reported in error.detail


KEY = "3f9c0ffee"


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        (f"ws://node.example:1/v3/{KEY}", "found ws://node.example:1/..."),
        (f"ws://node.example?key={KEY}", "found ws://node.example/..."),
        (f"https//node.example/{KEY}", "found a value that is not shown"),
        (f"ws://user:{KEY}@node.example", "found a value that is not shown"),
        (f"http://node.example:{KEY}", "found a value that is not shown"),
    ],
)
def test_possible_key_in_a_wrong_url_is_not_reported(tmp_path, url, reported):
    text = CLIENT.replace("http://127.0.0.1:8545", url)

    error = load_error(ClientSettings, settings(tmp_path, text))

    assert f", {reported}" in error.detail
    assert KEY not in error.detail


def test_content_of_a_wrong_table_is_not_reported(tmp_path):
    ssh = f'{{endpoint = "{KEY}:22", key_file = "/k", known_hosts_file = "/h"}}'

    error = load_error(Slurm, settings(tmp_path, f'transport = "agent"\nssh = {ssh}'))

    assert KEY not in error.detail


LOGGER = """
log_token_key_file = "/t"
storage_key_file = "/s"
web_origins = ["{origin}"]
[tls]
certificate_file = "/c"
key_file = "/k"
"""


@pytest.mark.parametrize("origin", ["https://portal.example", "http://localhost:3000"])
def test_origin_is_loaded(tmp_path, origin):
    loaded = load(LoggerSettings, settings(tmp_path, LOGGER.format(origin=origin)))

    assert loaded.web_origins == (origin,)


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "null",
        "portal.example",
        "https://portal.example/",
        "https://Portal.example",
        "https://a@b",
        "",
    ],
)
def test_malformed_origin_is_refused(tmp_path, origin):
    error = load_error(LoggerSettings, settings(tmp_path, LOGGER.format(origin=origin)))

    assert "web_origins" in error.detail


def test_all_wrong_settings_are_reported_at_once(tmp_path):
    text = CLIENT.replace("chain_id", "chainid").replace("endpoint", "end_point")

    error = load_error(ClientSettings, settings(tmp_path, text))

    assert error.detail.count(";") == 3


@pytest.mark.parametrize("text", ["a = ", "[a", "\x00"])
def test_file_that_is_not_toml_is_refused(tmp_path, text):
    assert "is not TOML" in load_error(ClientSettings, settings(tmp_path, text)).message


def test_missing_file_is_refused(tmp_path):
    assert "cannot read" in load_error(ClientSettings, tmp_path / "absent.toml").message


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_service_refuses_an_empty_file(tmp_path, service):
    with pytest.raises(ConfigError, match="invalid settings"):
        load(SERVICES[service], settings(tmp_path, ""))


SSH = 'ssh = {endpoint = "login:22", key_file = "/k", known_hosts_file = "/h"}'
AGENT = (
    'agent = {endpoint = "controller:6830", ca_file = "/a", certificate_file = "/c", '
    'key_file = "/k"}'
)


@pytest.mark.parametrize(
    ("transport", "tables"), [("agent", ""), ("agent", SSH), ("ssh", ""), ("ssh", AGENT)]
)
def test_transport_without_its_table_is_refused(tmp_path, transport, tables):
    error = load_error(Slurm, settings(tmp_path, f'transport = "{transport}"\n{tables}'))

    assert f"slurm.{transport}" in error.detail


@pytest.mark.parametrize(("transport", "tables"), [("agent", AGENT), ("ssh", SSH)])
def test_transport_with_its_table_is_loaded(tmp_path, transport, tables):
    loaded = load(Slurm, settings(tmp_path, f'transport = "{transport}"\n{tables}'))

    assert loaded.transport == transport


@pytest.mark.parametrize(
    "command", ["[]", '["{directory}", "{bytes}"]', '["setquota", "{directory}"]']
)
def test_quota_without_a_command_is_refused(tmp_path, command):
    error = load_error(Storage, settings(tmp_path, f"quota_gib = 5\nquota_command = {command}"))

    assert "quota_gib requires a quota_command with the arguments" in error.detail


def test_quota_with_its_command_is_loaded(tmp_path):
    command = '["setquota", "--limit={bytes}", "{directory}"]'

    loaded = load(Storage, settings(tmp_path, f"quota_gib = 5\nquota_command = {command}"))

    assert loaded.quota_gib == 5


@pytest.mark.parametrize("network", ["everybody", "192.0.2.1/24", "192.0.2.0/33", ""])
def test_malformed_network_is_refused(tmp_path, network):
    file = settings(tmp_path, f'metrics_for = ["{network}"]')

    error = load_error(JobDefinitionsSettings, file)

    assert "metrics_for.0: must be a network" in error.detail


def test_credits_are_converted_to_wei_without_rounding():
    assert to_wei(Decimal("0.000000000000000001")) == 1
