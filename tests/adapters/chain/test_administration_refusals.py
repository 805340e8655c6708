# SPDX-License-Identifier: Apache-2.0
"""Tests of commands of `gridstead contracts` that fail and send no transaction."""

from __future__ import annotations

from tests.adapters.chain.contracts_command import (
    ADMIN,
    CONFIG_ERROR,
    INPUT_ERROR,
    NEW_OWNER,
    POOR,
    REFUSED,
    TRANSIENT_ERROR,
    UNUSED_ADDRESS,
)
from tests.adapters.chain.deploying import SEND_METHOD
from tests.devnet import wallet


def invalid_commands(contracts_cli):
    """Return the arguments, options, exit code and error text of invalid commands, by name."""
    admin = wallet(ADMIN).address
    credit = contracts_cli.chain.addresses["Credit"]
    return {
        "chain id of another chain": (
            ("close",),
            {"chain-id": 5},
            CONFIG_ERROR,
            "the chain must be 5",
        ),
        "address without a contract": (
            ("close",),
            {"contract": UNUSED_ADDRESS},
            INPUT_ERROR,
            f"there is no contract at {UNUSED_ADDRESS}",
        ),
        "address of a wallet": (
            ("close",),
            {"contract": admin},
            INPUT_ERROR,
            f"there is no contract at {admin}",
        ),
        "address of another contract": (
            ("close",),
            {"contract": credit},
            CONFIG_ERROR,
            "cannot find the grid's",
        ),
        "grant by a wallet that is not admin": (
            ("grant", "matcher", UNUSED_ADDRESS),
            {"by": NEW_OWNER},
            REFUSED,
            f"{wallet(NEW_OWNER).address} is not admin of MetaScheduler",
        ),
        "constant set by a wallet that is not owner": (
            ("set-constant", "deepsquareCut", "9"),
            {"by": NEW_OWNER},
            REFUSED,
            "may not set constants",
        ),
        "revocation of the last admin": (
            ("revoke", "admin", admin),
            {},
            REFUSED,
            "is the last admin",
        ),
        "hand-over to the same wallet": (
            ("hand-over", admin),
            {},
            INPUT_ERROR,
            "is the wallet that hands over",
        ),
        "hand-over to a contract": (("hand-over", credit), {}, INPUT_ERROR, "cannot hand over to"),
        "unreachable endpoint": (
            ("close",),
            {"rpc-url": "http://127.0.0.1:1"},
            TRANSIENT_ERROR,
            "could not reach the chain",
        ),
        "missing deployment file": (
            ("close",),
            {"deployment": "/nonexistent"},
            CONFIG_ERROR,
            "it does not exist",
        ),
    }


def test_invalid_command_prints_one_error_and_sends_nothing(contracts_cli):
    admin_count = contracts_cli.transaction_count()
    new_owner_count = contracts_cli.transaction_count(NEW_OWNER)

    for name, (arguments, options, code, message) in invalid_commands(contracts_cli).items():
        result = contracts_cli.run(*arguments, **options)
        assert (result.code, result.out) == (code, ""), name
        assert message in result.err, name
        assert result.err.count("error: ") == 1, name

    assert contracts_cli.transaction_count() == admin_count
    assert contracts_cli.transaction_count(NEW_OWNER) == new_owner_count


def test_wallet_without_coins_is_an_error(contracts_cli, chain):
    assert contracts_cli.run("grant", "admin", wallet(POOR).address).code == 0

    code, _, err = contracts_cli.run("grant", "matcher", UNUSED_ADDRESS, by=POOR)

    assert code == CONFIG_ERROR
    assert f"cannot pay for transactions of {wallet(POOR).address}" in err
    assert SEND_METHOD not in err
