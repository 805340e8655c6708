# SPDX-License-Identifier: Apache-2.0
"""Invalid input that `gridstead contracts` refuses before it reads the chain.

The error names the field, the value, and the allowed values.
"""

import json

import pytest

from gridstead.domain.contracts.constants import CONSTANTS

INPUT_EXIT = 65
USAGE_EXIT = 2
CONFIG_EXIT = 78
ADDRESS = "0x" + "ab" * 20
CHECKSUM_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"  # an example in EIP-55
CHAIN_OPTIONS = ("--rpc-url=http://127.0.0.1:1", f"--contract={ADDRESS}")


@pytest.fixture
def administer(gridstead, tmp_path):
    """Return a function that runs a command with a wallet. No node answers at its RPC URL."""
    key = tmp_path / "key"
    password = tmp_path / "password"
    key.write_text(json.dumps({"address": "cd" * 20}))
    password.write_text("a secret\n")

    def run(command, *arguments):
        wallet_options = (f"--admin-keystore={key}", f"--admin-password-file={password}")
        return gridstead("contracts", command, *arguments, *CHAIN_OPTIONS, *wallet_options)

    return run


@pytest.mark.parametrize("role", ["minter", "", "ADMINS", "contract", "0x00", "x" * 5000])
def test_unknown_role_is_refused(administer, role):
    result = administer("grant", role, ADDRESS)

    assert result.code == INPUT_EXIT
    assert result.out == ""
    assert result.err.startswith("error: invalid role")
    assert "one of: admin, matcher." in result.err
    assert len(result.err) < 500


@pytest.mark.parametrize("command", [("grant", "admin"), ("revoke", "admin"), ("hand-over",)])
@pytest.mark.parametrize(
    "address", ["", "0x", "0x12", ADDRESS + "0", "root", "\x1b[31m" + ADDRESS, "x" * 5000]
)
def test_invalid_address_is_refused(administer, command, address):
    result = administer(*command, address)

    assert result.code == INPUT_EXIT
    assert result.out == ""
    assert result.err.startswith("error: invalid address")
    assert "\x1b" not in result.err


@pytest.mark.parametrize("command", [("grant", "admin"), ("revoke", "admin"), ("hand-over",)])
def test_wrong_checksum_of_an_address_is_refused(administer, command):
    address = CHECKSUM_ADDRESS.replace("aA", "aB")

    result = administer(*command, address)

    assert result.code == INPUT_EXIT
    assert f"error: invalid address {address}" in result.err
    assert "capitals" in result.err


@pytest.mark.parametrize(
    "address", [CHECKSUM_ADDRESS, CHECKSUM_ADDRESS.lower(), "0x" + CHECKSUM_ADDRESS[2:].upper()]
)
def test_address_with_a_valid_checksum_or_without_a_checksum_is_accepted(administer, address):
    result = administer("grant", "admin", address)

    assert "could not reach the chain" in result.err


@pytest.mark.parametrize("name", ["fee", "", "deepsquareCat", "x" * 5000])
def test_unknown_constant_is_refused(administer, name):
    result = administer("set-constant", name, "1")

    assert result.code == INPUT_EXIT
    assert "one of: minimumAmount, deepsquareCut" in result.err
    assert len(result.err) < 700


# "٣" is the Arabic digit three.
@pytest.mark.parametrize("value", ["", "x", "1.5", "1e3", "٣", " 5", "0x5", "9" * 200])
def test_invalid_value_is_refused_with_the_bounds(administer, value):
    result = administer("set-constant", "deepsquareCut", value)

    assert result.code == INPUT_EXIT
    assert result.out == ""
    assert "error: invalid deepsquareCut" in result.err
    assert "from 0 percent to 100 percent" in result.err


def test_invalid_amount_is_refused(administer):
    result = administer("set-constant", "minimumAmount", "lots")

    assert result.code == INPUT_EXIT
    assert "invalid amount of credits" in result.err


def test_help_has_unit_and_bounds_of_every_constant(gridstead):
    result = gridstead("contracts", "set-constant", "--help")

    assert result.code == 0
    for constant in CONSTANTS:
        assert constant.name in result.out
        assert constant.meaning in result.out
    assert "345600 s to 2592000 s" in result.out


def test_missing_deployment_file_is_an_error(gridstead):
    result = gridstead(
        "contracts",
        "status",
        "--rpc-url=http://127.0.0.1:1",
        "--deployment=/nonexistent/deployment.json",
    )

    assert result.code == CONFIG_EXIT
    assert "cannot read the deployment /nonexistent/deployment.json" in result.err


def test_error_is_printed_as_json_with_option_json(gridstead):
    result = gridstead(
        "contracts", "status", "--contract=0x12", "--rpc-url=http://127.0.0.1:1", "--json"
    )

    error = json.loads(result.err)["error"]
    assert error["code"] == "invalid-input"
    assert error["exit_code"] == INPUT_EXIT


def test_unreadable_wallet_is_an_error_before_the_chain_is_read(gridstead):
    result = gridstead(
        "contracts",
        "close",
        *CHAIN_OPTIONS,
        "--admin-keystore=/nonexistent",
        "--admin-password-file=/nonexistent",
    )

    assert result.code == CONFIG_EXIT
    assert "cannot read wallet /nonexistent" in result.err


@pytest.mark.parametrize("option", ["--chain-id=0", "--chain-id=x", "--first-block=-1"])
def test_option_out_of_range_is_a_usage_error(gridstead, option):
    result = gridstead("contracts", "status", *CHAIN_OPTIONS, option)

    assert result.code == USAGE_EXIT
