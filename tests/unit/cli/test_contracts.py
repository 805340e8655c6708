# SPDX-License-Identifier: Apache-2.0
"""What `gridstead contracts` refuses before it asks anybody: the field, the value, what is allowed."""

import json

import pytest

from gridstead.domain.administration import CONSTANTS

INPUT, USAGE, CONFIG = 65, 2, 78
GOOD = "0x" + "ab" * 20
MIXED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"  # an example of EIP-55
WHERE = ("--rpc-url=http://127.0.0.1:1", f"--contract={GOOD}")


@pytest.fixture
def administer(gridstead, tmp_path):
    """Runs a command with a wallet, on an endpoint where nobody listens."""
    key, password = tmp_path / "key", tmp_path / "password"
    key.write_text(json.dumps({"address": "cd" * 20}))
    password.write_text("a secret\n")

    def run(command, *arguments):
        keys = (f"--admin-keystore={key}", f"--admin-password-file={password}")
        return gridstead("contracts", command, *arguments, *WHERE, *keys)

    return run


@pytest.mark.parametrize("role", ["minter", "", "ADMINS", "contract", "0x00", "x" * 5000])
def test_a_role_that_there_is_not_is_refused(administer, role):
    done = administer("grant", role, GOOD)

    assert (done.code, done.out) == (INPUT, "")
    assert done.err.startswith("error: invalid role")
    assert "one of: admin, matcher." in done.err
    assert len(done.err) < 500


@pytest.mark.parametrize("command", ["grant", "revoke", "hand-over"])
@pytest.mark.parametrize(
    "address", ["", "0x", "0x12", GOOD + "0", "root", "\x1b[31m" + GOOD, "x" * 5000]
)
def test_an_address_that_is_none_is_refused(administer, command, address):
    role = () if command == "hand-over" else ("admin",)

    done = administer(command, *role, address)

    assert (done.code, done.out) == (INPUT, "")
    assert done.err.startswith("error: invalid address")
    assert "\x1b" not in done.err


@pytest.mark.parametrize("command", ["grant", "hand-over"])
def test_a_mistyped_address_gets_no_power(administer, command):
    role = () if command == "hand-over" else ("admin",)
    wrong = MIXED.replace("aA", "aB")

    done = administer(command, *role, wrong)

    assert done.code == INPUT
    assert f"error: invalid address {wrong}" in done.err
    assert "capitals" in done.err


@pytest.mark.parametrize("address", [MIXED, MIXED.lower(), "0x" + MIXED[2:].upper()])
def test_an_address_with_good_capitals_or_none_goes_through(administer, address):
    assert "could not reach the chain" in administer("grant", "admin", address).err


@pytest.mark.parametrize("name", ["fee", "", "deepsquareCat", "x" * 5000])
def test_a_constant_that_there_is_not_is_refused(administer, name):
    done = administer("set-constant", name, "1")

    assert done.code == INPUT
    assert "one of: minimumAmount, deepsquareCut" in done.err
    assert len(done.err) < 700


@pytest.mark.parametrize("value", ["", "x", "1.5", "1e3", "٣", " 5", "0x5", "9" * 200])
def test_a_value_that_is_no_number_is_refused_with_the_bounds(administer, value):
    done = administer("set-constant", "deepsquareCut", value)

    assert (done.code, done.out) == (INPUT, "")
    assert "error: invalid deepsquareCut" in done.err
    assert "from 0 percent to 100 percent" in done.err


def test_an_amount_that_is_none_is_refused(administer):
    done = administer("set-constant", "minimumAmount", "lots")

    assert done.code == INPUT
    assert "invalid amount of credits" in done.err


def test_the_units_and_bounds_of_every_constant_stand_in_the_help(gridstead):
    done = gridstead("contracts", "set-constant", "--help")

    assert done.code == 0
    for one in CONSTANTS:
        assert one.name in done.out
        assert one.meaning in done.out
    assert "345600 s to 2592000 s" in done.out


def test_contracts_that_nobody_names_are_told(gridstead):
    done = gridstead(
        "contracts",
        "status",
        "--rpc-url=http://127.0.0.1:1",
        "--deployment=/nonexistent/deployment.json",
    )

    assert done.code == CONFIG
    assert "cannot read the deployment /nonexistent/deployment.json" in done.err


def test_an_error_is_json_where_json_was_asked_for(gridstead):
    done = gridstead(
        "contracts", "status", "--contract=0x12", "--rpc-url=http://127.0.0.1:1", "--json"
    )

    error = json.loads(done.err)["error"]
    assert (error["code"], error["exit_code"]) == ("invalid-input", INPUT)


def test_a_wallet_that_cannot_be_read_is_told_before_the_chain_is_asked(gridstead):
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
def test_an_option_out_of_range_is_wrong_usage(gridstead, option):
    assert gridstead("contracts", "status", *WHERE, option).code == USAGE
