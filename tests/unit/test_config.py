# SPDX-License-Identifier: Apache-2.0
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


def test_an_address_is_lowered(tmp_path):
    assert load(ClientSettings, settings(tmp_path, CLIENT)).chain.contract == "0x" + "ab" * 20


@pytest.mark.parametrize(
    ("before", "after", "told"),
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
def test_a_broken_field_is_named_with_what_was_found(tmp_path, before, after, told):
    with pytest.raises(ConfigError) as error:
        load(ClientSettings, settings(tmp_path, CLIENT.replace(before, after)))

    assert told in error.value.detail


KEY = "3f9c0ffee"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"ws://node.example:1/v3/{KEY}", "found ws://node.example:1/..."),
        (f"ws://node.example?key={KEY}", "found ws://node.example/..."),
        (f"https//node.example/{KEY}", "found a value that is not shown"),
        (f"ws://user:{KEY}@node.example", "found a value that is not shown"),
        (f"http://node.example:{KEY}", "found a value that is not shown"),
    ],
)
def test_of_a_wrong_address_no_part_is_told_that_may_be_a_key(tmp_path, said, told):
    with pytest.raises(ConfigError) as error:
        load(ClientSettings, settings(tmp_path, CLIENT.replace("http://127.0.0.1:8545", said)))

    assert f", {told}" in error.value.detail
    assert KEY not in error.value.detail


def test_of_tables_nothing_is_told(tmp_path):
    with pytest.raises(ConfigError) as error:
        load(
            Slurm,
            settings(
                tmp_path,
                f'transport = "agent"\nssh = {{endpoint = "{KEY}:22", key_file = "/k", known_hosts_file = "/h"}}',
            ),
        )

    assert KEY not in error.value.detail


LOGGER = """
log_token_key_file = "/t"
storage_key_file = "/s"
web_origins = ["{origin}"]
[tls]
certificate_file = "/c"
key_file = "/k"
"""


@pytest.mark.parametrize("origin", ["https://portal.example", "http://localhost:3000"])
def test_an_origin_is_what_browsers_call_one(tmp_path, origin):
    assert load(LoggerSettings, settings(tmp_path, LOGGER.format(origin=origin))).web_origins == (
        origin,
    )


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
def test_what_is_no_origin_is_refused(tmp_path, origin):
    with pytest.raises(ConfigError) as error:
        load(LoggerSettings, settings(tmp_path, LOGGER.format(origin=origin)))

    assert "web_origins" in error.value.detail


def test_all_broken_fields_are_named_at_once(tmp_path):
    with pytest.raises(ConfigError) as error:
        load(
            ClientSettings,
            settings(
                tmp_path, CLIENT.replace("chain_id", "chainid").replace("endpoint", "end_point")
            ),
        )

    assert error.value.detail.count(";") == 3


@pytest.mark.parametrize("text", ["a = ", "[a", "\x00"])
def test_what_is_not_toml_is_told(tmp_path, text):
    with pytest.raises(ConfigError, match="is not TOML"):
        load(ClientSettings, settings(tmp_path, text))


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        load(ClientSettings, tmp_path / "absent.toml")


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_a_service_does_not_start_on_an_empty_file(tmp_path, service):
    with pytest.raises(ConfigError, match="invalid settings"):
        load(SERVICES[service], settings(tmp_path, ""))


SSH = 'ssh = {endpoint = "login:22", key_file = "/k", known_hosts_file = "/h"}'
AGENT = 'agent = {endpoint = "controller:6830", ca_file = "/a", certificate_file = "/c", key_file = "/k"}'


@pytest.mark.parametrize(
    ("transport", "tables"), [("agent", ""), ("agent", SSH), ("ssh", ""), ("ssh", AGENT)]
)
def test_a_transport_without_its_table_is_told(tmp_path, transport, tables):
    with pytest.raises(ConfigError) as error:
        load(Slurm, settings(tmp_path, f'transport = "{transport}"\n{tables}'))

    assert f"transport {transport} needs a table slurm.{transport}" in error.value.detail


@pytest.mark.parametrize(("transport", "tables"), [("agent", AGENT), ("ssh", SSH)])
def test_a_transport_with_its_table_loads(tmp_path, transport, tables):
    assert (
        load(Slurm, settings(tmp_path, f'transport = "{transport}"\n{tables}')).transport
        == transport
    )


@pytest.mark.parametrize(
    "command", ["[]", '["{directory}", "{bytes}"]', '["setquota", "{directory}"]']
)
def test_a_quota_without_its_program_is_told(tmp_path, command):
    with pytest.raises(ConfigError) as error:
        load(Storage, settings(tmp_path, f"quota_gib = 5\nquota_command = {command}"))

    assert "with quota_gib, quota_command must be a program with arguments" in error.value.detail


def test_a_quota_with_its_program_loads(tmp_path):
    command = '["setquota", "--limit={bytes}", "{directory}"]'

    assert (
        load(Storage, settings(tmp_path, f"quota_gib = 5\nquota_command = {command}")).quota_gib
        == 5
    )


@pytest.mark.parametrize("network", ["everybody", "192.0.2.1/24", "192.0.2.0/33", ""])
def test_what_is_no_network_is_told(tmp_path, network):
    with pytest.raises(ConfigError) as error:
        load(JobDefinitionsSettings, settings(tmp_path, f'metrics_for = ["{network}"]'))

    assert "metrics_for.0: a network is address/length" in error.value.detail


def test_credits_become_wei_without_rounding():
    from decimal import Decimal  # noqa: PLC0415 - the one use

    assert to_wei(Decimal("0.000000000000000001")) == 1
