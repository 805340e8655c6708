# SPDX-License-Identifier: Apache-2.0
"""Tests of reading settings files, and of the errors about invalid settings."""

from decimal import Decimal

import pytest
from pydantic import TypeAdapter, ValidationError

from gridstead.config import (
    SERVICE_SETTINGS,
    ClientSettings,
    JobDefinitionsSettings,
    LoggerSettings,
    Slurm,
    Storage,
    load,
    to_wei,
)
from gridstead.config.values import ReportUrl
from gridstead.errors import ConfigError

CLIENT_SETTINGS = """
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
    """Write a settings file and return its path."""
    file = tmp_path / "settings.toml"
    file.write_text(text)
    return file


def load_error(model, file):
    """Return the error that a settings file causes."""
    with pytest.raises(ConfigError) as caught:
        load(model, file)
    return caught.value


def test_address_is_loaded_in_lower_case(tmp_path):
    loaded_settings = load(ClientSettings, settings(tmp_path, CLIENT_SETTINGS))

    assert loaded_settings.chain.contract == "0x" + "ab" * 20


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
def test_invalid_setting_is_reported(tmp_path, before, after, reported):
    error = load_error(ClientSettings, settings(tmp_path, CLIENT_SETTINGS.replace(before, after)))

    assert reported in error.detail


API_KEY = "3f9c0ffee"


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        (f"ws://node.example:1/v3/{API_KEY}", "found ws://node.example:1/..."),
        (f"ws://node.example?key={API_KEY}", "found ws://node.example/..."),
        (f"https//node.example/{API_KEY}", "found a value that is not shown"),
        (f"ws://user:{API_KEY}@node.example", "found a value that is not shown"),
        (f"http://node.example:{API_KEY}", "found a value that is not shown"),
    ],
)
def test_error_about_a_url_hides_a_possible_api_key(tmp_path, url, reported):
    text = CLIENT_SETTINGS.replace("http://127.0.0.1:8545", url)

    error = load_error(ClientSettings, settings(tmp_path, text))

    assert f", {reported}" in error.detail
    assert API_KEY not in error.detail


def test_error_about_a_table_hides_its_content(tmp_path):
    ssh_table = f'{{endpoint = "{API_KEY}:22", key_file = "/k", known_hosts_file = "/h"}}'

    error = load_error(Slurm, settings(tmp_path, f'transport = "agent"\nssh = {ssh_table}'))

    assert API_KEY not in error.detail


LOGGER_SETTINGS = """
log_token_key_file = "/t"
storage_key_file = "/s"
web_origins = ["{origin}"]
[tls]
certificate_file = "/c"
key_file = "/k"
"""


@pytest.mark.parametrize("origin", ["*", "https://portal.example", "http://localhost:3000"])
def test_valid_origin_is_loaded(tmp_path, origin):
    loaded_settings = load(
        LoggerSettings, settings(tmp_path, LOGGER_SETTINGS.format(origin=origin))
    )

    assert loaded_settings.web_origins == (origin,)


@pytest.mark.parametrize(
    "origin",
    [
        "https://*.example",
        "null",
        "portal.example",
        "https://portal.example/",
        "https://Portal.example",
        "https://a@b",
        "",
    ],
)
def test_malformed_origin_is_refused(tmp_path, origin):
    error = load_error(LoggerSettings, settings(tmp_path, LOGGER_SETTINGS.format(origin=origin)))

    assert "web_origins" in error.detail


def test_pages_of_any_origin_may_call_both_servers_by_default():
    for settings_model in (JobDefinitionsSettings, LoggerSettings):
        assert settings_model.model_fields["web_origins"].default == ("*",)


def test_all_invalid_settings_are_reported_at_once(tmp_path):
    text = CLIENT_SETTINGS.replace("chain_id", "chainid").replace("endpoint", "end_point")

    error = load_error(ClientSettings, settings(tmp_path, text))

    assert error.detail.count(";") == 3


@pytest.mark.parametrize("text", ["a = ", "[a", "\x00"])
def test_file_that_is_not_toml_is_refused(tmp_path, text):
    error = load_error(ClientSettings, settings(tmp_path, text))

    assert "is not TOML" in error.message


def test_missing_file_is_refused(tmp_path):
    error = load_error(ClientSettings, tmp_path / "absent.toml")

    assert "cannot read" in error.message


@pytest.mark.parametrize("service", sorted(SERVICE_SETTINGS))
def test_every_service_refuses_an_empty_file(tmp_path, service):
    with pytest.raises(ConfigError, match="invalid settings"):
        load(SERVICE_SETTINGS[service], settings(tmp_path, ""))


SSH_TABLE = 'ssh = {endpoint = "login:22", key_file = "/k", known_hosts_file = "/h"}'
AGENT_TABLE = (
    'agent = {endpoint = "controller:6830", ca_file = "/a", certificate_file = "/c", '
    'key_file = "/k"}'
)


@pytest.mark.parametrize(
    ("transport", "table"),
    [("agent", ""), ("agent", SSH_TABLE), ("ssh", ""), ("ssh", AGENT_TABLE)],
)
def test_transport_without_its_table_is_refused(tmp_path, transport, table):
    error = load_error(Slurm, settings(tmp_path, f'transport = "{transport}"\n{table}'))

    assert f"slurm.{transport}" in error.detail


@pytest.mark.parametrize(("transport", "table"), [("agent", AGENT_TABLE), ("ssh", SSH_TABLE)])
def test_transport_with_its_table_is_loaded(tmp_path, transport, table):
    loaded_settings = load(Slurm, settings(tmp_path, f'transport = "{transport}"\n{table}'))

    assert loaded_settings.transport == transport


REPORT_URL = TypeAdapter(ReportUrl)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://provider.test/report.json", "must be a URL that starts with https://"),
        ("ftp://provider.test/report.json", "must be a URL that starts with https://"),
        ("https://provider.test/" + "a" * 43, "65 bytes, at most 64"),
        ("https://me:secret@provider.test/r", "must have no user name"),
        ("https://provider.test/r#part", "must have no user name, password or fragment"),
        ("https://", "must be a URL"),
        ("https://provider.test/a b", "must be a URL"),
    ],
)
def test_url_that_cannot_be_a_label_is_refused(url, reason):
    with pytest.raises(ValidationError, match=reason):
        REPORT_URL.validate_python(url)


def test_url_of_the_report_is_loaded():
    url = "https://provider.test/" + "a" * 42

    assert REPORT_URL.validate_python(url) == url


@pytest.mark.parametrize(
    "command", ["[]", '["{directory}", "{bytes}"]', '["setquota", "{directory}"]']
)
def test_quota_without_a_valid_command_is_refused(tmp_path, command):
    error = load_error(Storage, settings(tmp_path, f"quota_gib = 5\nquota_command = {command}"))

    assert "quota_gib requires a quota_command with the arguments" in error.detail


def test_quota_with_its_command_is_loaded(tmp_path):
    command = '["setquota", "--limit={bytes}", "{directory}"]'

    loaded_settings = load(Storage, settings(tmp_path, f"quota_gib = 5\nquota_command = {command}"))

    assert loaded_settings.quota_gib == 5


@pytest.mark.parametrize("network", ["everybody", "192.0.2.1/24", "192.0.2.0/33", ""])
def test_malformed_network_is_refused(tmp_path, network):
    file = settings(tmp_path, f'metrics_for = ["{network}"]')

    error = load_error(JobDefinitionsSettings, file)

    assert "metrics_for.0: must be a network" in error.detail


def test_credits_are_converted_to_wei_without_rounding():
    assert to_wei(Decimal("0.000000000000000001")) == 1
