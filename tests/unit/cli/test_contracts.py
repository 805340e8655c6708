# SPDX-License-Identifier: Apache-2.0
"""Input that `gridstead contracts` refuses locally: field, value and allowed values are printed."""

import json

import pytest

from gridstead.domain.contracts.administration import CONSTANTS

INPUT, USAGE, CONFIG = 65, 2, 78
GOOD = "0x" + "ab" * 20
MIXED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"  # an example of EIP-55
WHERE = ("--rpc-url=http://127.0.0.1:1", f"--contract={GOOD}")


@pytest.fixture
def administer(gridstead, tmp_path):
    """Returns a function that runs a command with a wallet, and an endpoint without a node."""
    key, password = tmp_path / "key", tmp_path / "password"
    key.write_text(json.dumps({"address": "cd" * 20}))
    password.write_text("a secret\n")

    def run(command, *arguments):
        keys = (f"--admin-keystore={key}", f"--admin-password-file={password}")
        return gridstead("contracts", command, *arguments, *WHERE, *keys)

    return run


@pytest.mark.parametrize("role", ["minter", "", "ADMINS", "contract", "0x00", "x" * 5000])
def test_unknown_role_is_refused(administer, role):
    done = administer("grant", role, GOOD)

    assert (done.code, done.out) == (INPUT, "")
    assert done.err.startswith("error: invalid role")
    assert "one of: admin, matcher." in done.err
    assert len(done.err) < 500


@pytest.mark.parametrize("command", ["grant", "revoke", "hand-over"])
@pytest.mark.parametrize(
    "address", ["", "0x", "0x12", GOOD + "0", "root", "\x1b[31m" + GOOD, "x" * 5000]
)
def test_invalid_address_is_refused(administer, command, address):
    role = () if command == "hand-over" else ("admin",)

    done = administer(command, *role, address)

    assert (done.code, done.out) == (INPUT, "")
    assert done.err.startswith("error: invalid address")
    assert "\x1b" not in done.err


@pytest.mark.parametrize("command", ["grant", "hand-over"])
def test_wrong_checksum_of_an_address_is_refused(administer, command):
    role = () if command == "hand-over" else ("admin",)
    wrong = MIXED.replace("aA", "aB")

    done = administer(command, *role, wrong)

    assert done.code == INPUT
    assert f"error: invalid address {wrong}" in done.err
    assert "capitals" in done.err


@pytest.mark.parametrize("address", [MIXED, MIXED.lower(), "0x" + MIXED[2:].upper()])
def test_address_with_valid_or_no_checksum_is_accepted(administer, address):
    assert "could not reach the chain" in administer("grant", "admin", address).err


@pytest.mark.parametrize("name", ["fee", "", "deepsquareCat", "x" * 5000])
def test_unknown_constant_is_refused(administer, name):
    done = administer("set-constant", name, "1")

    assert done.code == INPUT
    assert "one of: minimumAmount, deepsquareCut" in done.err
    assert len(done.err) < 700


@pytest.mark.parametrize("value", ["", "x", "1.5", "1e3", "٣", " 5", "0x5", "9" * 200])
def test_invalid_value_is_refused_with_the_bounds(administer, value):
    done = administer("set-constant", "deepsquareCut", value)

    assert (done.code, done.out) == (INPUT, "")
    assert "error: invalid deepsquareCut" in done.err
    assert "from 0 percent to 100 percent" in done.err


def test_invalid_amount_is_refused(administer):
    done = administer("set-constant", "minimumAmount", "lots")

    assert done.code == INPUT
    assert "invalid amount of credits" in done.err


def test_help_has_unit_and_bounds_of_every_constant(gridstead):
    done = gridstead("contracts", "set-constant", "--help")

    assert done.code == 0
    for constant in CONSTANTS:
        assert constant.name in done.out
        assert constant.meaning in done.out
    assert "345600 s to 2592000 s" in done.out


def test_missing_deployment_file_is_an_error(gridstead):
    done = gridstead(
        "contracts",
        "status",
        "--rpc-url=http://127.0.0.1:1",
        "--deployment=/nonexistent/deployment.json",
    )

    assert done.code == CONFIG
    assert "cannot read the deployment /nonexistent/deployment.json" in done.err


def test_error_is_json_with_json_option(gridstead):
    done = gridstead(
        "contracts", "status", "--contract=0x12", "--rpc-url=http://127.0.0.1:1", "--json"
    )

    error = json.loads(done.err)["error"]
    assert (error["code"], error["exit_code"]) == ("invalid-input", INPUT)


def test_unreadable_wallet_is_an_error_before_the_chain_is_read(gridstead):
    done = gridstead(
        "contracts",
        "close",
        *WHERE,
        "--admin-keystore=/nonexistent",
        "--admin-password-file=/nonexistent",
    )

    assert done.code == CONFIG
    assert "cannot read wallet /nonexistent" in done.err


@pytest.mark.parametrize("option", ["--chain-id=0", "--chain-id=x", "--first-block=-1"])
def test_option_out_of_range_is_wrong_usage(gridstead, option):
    assert gridstead("contracts", "status", *WHERE, option).code == USAGE
