# SPDX-License-Identifier: Apache-2.0
"""Tests of `gridstead contracts`, which administers a set of contracts, on a real chain."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import itemgetter

import pytest
from tests.adapters.chain.contracts_command import (
    ADMIN,
    NEW_OWNER,
    REFUSED,
    accounts,
    holders,
    inspect,
)
from tests.adapters.chain.generations import on_unsealed
from tests.adapters.chain.grids import RealGrid
from tests.devnet import COIN, wallet

from gridstead.adapters.chain.node import RpcError
from gridstead.adapters.contracts.administrator import Administrator
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.domain.contracts.administration import set_constant
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.contracts.constants import CONSTANTS, find_constant
from gridstead.errors import NotAllowed, TransactionReverted


def test_role_is_granted_once_and_revoked_once(contracts_cli):
    account = wallet(NEW_OWNER).address
    count_before = contracts_cli.transaction_count()

    assert contracts_cli.run("grant", "matcher", account).code == 0
    code, out, _ = contracts_cli.run("grant", "matcher", account)

    assert (code, out) == (0, "nothing to change: no transaction was sent\n")
    assert contracts_cli.transaction_count() == count_before + 2
    assert ("ProviderManager", account) in holders(contracts_cli.status()[1], "matcher")
    code, out, _ = contracts_cli.run("revoke", "matcher", account, "--json")
    functions = [step["function"] for step in json.loads(out)["steps"]]
    # One transaction for MetaScheduler, and one for ProviderManager.
    assert (code, functions) == (0, ["revokeRole"] * 2)
    assert account not in accounts(contracts_cli.status()[1], "matcher")


# The arguments of commands that change the contracts, by the name of the command.
COMMANDS = {
    "grant": ("grant", "matcher", wallet(NEW_OWNER).address),
    "revoke": ("revoke", "matcher", wallet(2).address),
    "set-constant": ("set-constant", "deepsquareCut", "25"),
    "close": ("close",),
    "hand-over": ("hand-over", wallet(NEW_OWNER).address),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_dry_run_prints_the_transactions_and_changes_nothing(contracts_cli, chain, command):
    state_before = inspect(chain)

    code, out, _ = contracts_cli.run(*command, "--dry-run", "--json")

    plan = json.loads(out)
    assert (code, plan["dry_run"], plan["changed"], plan["transactions"]) == (0, True, False, [])
    assert inspect(chain) == state_before
    for nonce, step in enumerate(plan["steps"], contracts_cli.transaction_count()):
        assert step["nonce"] == nonce
        assert step["gas"] > 21_000
        assert step["to"] in chain.addresses.values()


@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_command_sends_the_transactions_that_its_dry_run_printed(contracts_cli, chain, command):
    plan = json.loads(contracts_cli.run(*command, "--dry-run", "--json").out)

    result = json.loads(contracts_cli.run(*command, "--json").out)

    to_transaction = itemgetter("to", "data", "nonce")
    sent_transactions = list(map(to_transaction, result["steps"]))
    assert sent_transactions == list(map(to_transaction, plan["steps"]))
    for step, transaction in zip(result["steps"], result["transactions"], strict=True):
        mined_transaction = chain.anvil.rpc("eth_getTransactionByHash", transaction["hash"])
        assert mined_transaction["input"] == step["data"]


def test_set_constant_prints_the_old_and_the_new_value(contracts_cli):
    code, out, _ = contracts_cli.run("set-constant", "minimum-amount", "0.5")
    assert (code, out.splitlines()[0]) == (0, "minimumAmount is 0.5 credits, it was 100 credits")

    code, out, _ = contracts_cli.run("set-constant", "minimumAmount", "0.5", "--json")
    result = json.loads(out)
    assert code == 0
    # The first command has already set this value.
    assert (result["old"], result["new"], result["unit"]) == (COIN // 2, COIN // 2, "wei")
    assert result["steps"] == []


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda constant: constant.name)
def test_bounds_of_constants_equal_those_of_the_contract(chain, constant):
    """The command line and the contract refuse the same values."""
    assert is_accepted(chain, constant, constant.minimum)
    assert is_accepted(chain, constant, constant.maximum)
    assert not is_accepted(chain, constant, constant.minimum - 1)
    assert not is_accepted(chain, constant, constant.maximum + 1)


def is_accepted(chain, constant, value):
    """Return whether the contract accepts this value of the constant from its owner."""
    if value < 0:
        return False  # cannot be encoded
    contract = chain.contracts.constants
    setter = f"set{constant.name[0].upper()}{constant.name[1:]}"
    eth_call = {
        "from": wallet(ADMIN).address,
        "to": contract.address,
        "data": contract.data(setter, value),
    }
    (answer,) = chain.node.batch([("eth_call", [eth_call, "latest"])])
    return not isinstance(answer, RpcError)


def test_error_about_a_value_that_the_contract_refuses_has_a_hint(chain):
    """A contract with narrower bounds can refuse a value that this release accepts."""
    cut = find_constant("deepsquareCut")
    cut_with_wide_bounds = replace(cut, minimum=0, maximum=1000)
    inspector = Inspector(chain.node, chain.contracts, report=lambda _: None)
    administrator = Administrator(chain.node, inspector, wallet(ADMIN), report=lambda _: None)

    def plan_new_cut(state):
        return set_constant(state, wallet(ADMIN).address, cut_with_wide_bounds, 101)

    with pytest.raises(NotAllowed, match=r"Constants refuses setDeepsquareCut\(101\)") as refusal:
        administrator.carry_out(plan_new_cut)

    assert refusal.value.detail == 'Error: "Constants: value out of bounds"'
    assert "bounds of these contracts differ" in refusal.value.hint
    assert isinstance(refusal.value.__cause__, TransactionReverted)


def test_closed_set_of_contracts_refuses_jobs_until_it_is_opened(contracts_cli, chain):
    assert contracts_cli.run("close").code == 0
    assert contracts_cli.status()[1]["accepts_jobs"] is False
    with pytest.raises(TransactionReverted, match="NewJobRequestDisabled"):
        RealGrid(chain).request("script-1")
    assert contracts_cli.run("open").code == 0
    RealGrid(chain).request("script-1")


@on_unsealed
def test_sealed_set_of_contracts_continues_to_work(contracts_cli, chain):
    assert contracts_cli.run("seal", by=NEW_OWNER).code == REFUSED
    count_before = contracts_cli.transaction_count()

    assert contracts_cli.run("seal").code == 0
    assert contracts_cli.run("seal").code == 0

    assert contracts_cli.transaction_count() == count_before + 1
    assert_sealed(inspect(chain))
    assert contracts_cli.status()[0] == 0
    RealGrid(chain).request("script-1")
    assert contracts_cli.run("hand-over", wallet(NEW_OWNER).address).code == 0
    assert contracts_cli.run("take-over", by=NEW_OWNER).code == 0
    assert_sealed(inspect(chain))


def assert_sealed(state):
    assert state.is_sealed
    assert check_contracts(state) == ()
