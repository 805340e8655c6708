# SPDX-License-Identifier: Apache-2.0
"""Tests of `gridstead contracts`, which administers a set of contracts, on a real chain."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import itemgetter

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.contracts_command import (
    ADMIN,
    CONFIG_ERROR,
    INPUT_ERROR,
    NEW_OWNER,
    POOR,
    REFUSED,
    TRANSIENT_ERROR,
    UNUSED_ADDRESS,
    holders,
    inspect,
)
from tests.adapters.chain.deploying import SEND_METHOD, Crash, CrashingNode, has_method
from tests.adapters.chain.generations import on_unsealed
from tests.devnet import COIN, wallet

from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.contracts.administrator import Administrator
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.domain.contracts.administration import (
    hand_over,
    set_constant,
    take_over,
)
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.contracts.constants import CONSTANTS, find_constant
from gridstead.domain.contracts.deployment import ROLE_CONTRACTS, Role
from gridstead.errors import NotAllowed, TransactionReverted

# The contracts that still have an admin after JobRepository is sealed.
GOVERNED = ("MetaScheduler", "ProviderManager")
# Runs a test twice: once on a sealed set of contracts, and once on an unsealed set.
# ``governed_contracts`` are the contracts of the set that have an admin.
SEALED_OR_NOT = pytest.mark.parametrize(
    ("generation", "governed_contracts"),
    [("ours", GOVERNED), ("unsealed", ROLE_CONTRACTS)],
    indirect=["generation"],
)


def test_role_is_granted_once_and_revoked_once(contracts_cli):
    account = wallet(NEW_OWNER).address
    before = contracts_cli.transaction_count()

    assert contracts_cli.run("grant", "matcher", account).code == 0
    code, out, _ = contracts_cli.run("grant", "matcher", account)

    assert (code, out) == (0, "nothing to change: no transaction was sent\n")
    assert contracts_cli.transaction_count() == before + 2
    assert ("ProviderManager", account) in holders(contracts_cli.status()[1], "matcher")
    code, out, _ = contracts_cli.run("revoke", "matcher", account, "--json")
    functions = [step["function"] for step in json.loads(out)["steps"]]
    # One transaction for MetaScheduler, and one for ProviderManager.
    assert (code, functions) == (0, ["revokeRole"] * 2)
    assert account not in accounts(contracts_cli.status()[1], "matcher")


def accounts(status, role):
    """Return the accounts that, in a status document, hold a role in at least one contract."""
    return {account for _, account in holders(status, role)}


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
    before = inspect(chain)

    code, out, _ = contracts_cli.run(*command, "--dry-run", "--json")

    plan = json.loads(out)
    assert (code, plan["dry_run"], plan["changed"], plan["transactions"]) == (0, True, False, [])
    assert inspect(chain) == before
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
        mined = chain.anvil.rpc("eth_getTransactionByHash", transaction["hash"])
        assert mined["input"] == step["data"]


def test_set_constant_prints_the_old_and_the_new_value(contracts_cli):
    code, out, _ = contracts_cli.run("set-constant", "minimum-amount", "0.5")
    assert (code, out.splitlines()[0]) == (0, "minimumAmount is 0.5 credits, it was 100 credits")

    code, out, _ = contracts_cli.run("set-constant", "minimumAmount", "0.5", "--json")
    result = json.loads(out)
    assert code == 0
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
    """A contract refuses a value if its bounds differ from the bounds that this release knows."""
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


@SEALED_OR_NOT
def test_administrator_is_replaced_in_two_steps(contracts_cli, governed_contracts):
    old_admin, new_admin = wallet(ADMIN).address, wallet(NEW_OWNER).address
    assert contracts_cli.run("take-over", by=NEW_OWNER).code == REFUSED

    assert contracts_cli.run("hand-over", new_admin).code == 0
    assert contracts_cli.run("set-constant", "deepsquareCut", "21").code == 0
    assert contracts_cli.run("take-over", by=NEW_OWNER).code == 0

    code, status = contracts_cli.status()
    assert code == 0
    assert holders(status, "admin") == {(contract, new_admin) for contract in governed_contracts}
    owners = {entry["contract"]: entry["owner"] for entry in status["owners"]}
    assert (owners["Constants"], owners["Credit"]) == (new_admin, new_admin)
    assert old_admin not in accounts(status, "admin")
    before = contracts_cli.transaction_count(NEW_OWNER)
    assert contracts_cli.run("take-over", by=NEW_OWNER).code == 0
    assert contracts_cli.run("hand-over", new_admin).code == 0
    assert contracts_cli.transaction_count(NEW_OWNER) == before
    assert contracts_cli.run("set-constant", "deepsquareCut", "22").code == REFUSED


class NodeThatMinesLate(Node):
    """A node that mines pending transactions when it has answered a request for a nonce.

    A program that asks for a nonce at its start thus sees the transactions as still pending.
    """

    def batch(self, requests):
        answers = super().batch(requests)
        if has_method(requests, "eth_getTransactionCount"):
            super().batch([("evm_mine", [])])
        return answers


class InterruptedAdministration:
    """Carries out changes of the contracts in two runs, of which the first one crashes.

    Args:
        chain: The chain with the contracts.
        position: The number of transactions that the first run sends before it crashes.
        is_pending: Whether these transactions are still pending at the start of the second run.
    """

    def __init__(self, chain, position, *, is_pending):
        self._chain = chain
        self._position = position
        self._is_pending = is_pending

    def run_twice(self, sender, plan):
        """Carry out the plan in two runs; return how many transactions were sent in total."""
        before = self._count(sender, "latest")
        self._chain.anvil.rpc("evm_setAutomine", not self._is_pending)
        crashing_node = CrashingNode(self._chain.anvil.url, self._position, sent=True)
        with pytest.raises(Crash):
            self._carry_out(crashing_node, sender, plan)
        crashing_node.close()
        assert self._count(sender, "pending") == before + self._position
        node_class = NodeThatMinesLate if self._is_pending else Node
        node = node_class(self._chain.anvil.url)
        self._carry_out(node, sender, plan)
        node.close()
        return self._count(sender, "latest") - before

    def _carry_out(self, node, sender, plan):
        inspector = Inspector(self._chain.node, self._chain.contracts, report=lambda _: None)
        administrator = Administrator(node, inspector, sender, report=lambda _: None)
        accounts = (wallet(ADMIN).address, wallet(NEW_OWNER).address)
        administrator.carry_out(plan, accounts=accounts)

    def _count(self, sender, block):
        """Return how many transactions of the sender the chain contains up to a block."""
        return int(self._chain.node.ask("eth_getTransactionCount", sender.address, block), 16)


@pytest.mark.parametrize(
    ("generation", "governed_contracts", "position", "is_pending"),
    [
        ("unsealed", ROLE_CONTRACTS, 1, False),
        ("unsealed", ROLE_CONTRACTS, 2, False),
        ("unsealed", ROLE_CONTRACTS, 3, False),
        ("unsealed", ROLE_CONTRACTS, 4, False),
        ("unsealed", ROLE_CONTRACTS, 5, False),
        ("ours", GOVERNED, 1, False),
        ("ours", GOVERNED, 2, False),
        ("ours", GOVERNED, 3, False),
        ("ours", GOVERNED, 4, False),
        ("ours", GOVERNED, 1, True),
    ],
    indirect=["generation"],
)
def test_interrupted_change_of_admin_is_finished_without_repetition(
    chain, governed_contracts, position, is_pending
):
    old_admin, new_admin = wallet(ADMIN), wallet(NEW_OWNER)
    chain.anvil.fund(new_admin.address)
    administration = InterruptedAdministration(chain, position, is_pending=is_pending)

    def plan_hand_over(state):
        return hand_over(state, old_admin.address, new_admin.address)

    def plan_take_over(state):
        return take_over(state, new_admin.address)

    # One transaction per contract with an admin, and two for the owners of Constants and Credit.
    assert administration.run_twice(old_admin, plan_hand_over) == len(governed_contracts) + 2
    assert admin_contracts(inspect(chain)) == set(governed_contracts)
    assert administration.run_twice(new_admin, plan_take_over) == len(governed_contracts) + 2
    state = inspect(chain)
    assert admin_contracts(state) == set(governed_contracts)
    assert state.accounts("MetaScheduler", Role.ADMIN) == (new_admin.address,)
    hints = [diagnostic.hint for diagnostic in check_contracts(state)]
    assert hints == ([] if state.is_sealed else ["Run `gridstead contracts seal`."])


def admin_contracts(state):
    """Return the contracts that have an admin."""
    admins = [holder for holder in state.holders if holder.role is Role.ADMIN]
    return {holder.contract for holder in admins}


@SEALED_OR_NOT
def test_take_over_fails_if_the_old_admin_is_not_found(contracts_cli, chain, governed_contracts):
    """The command revokes the role of the old admin, so it must find the old admin.

    The command searches for the old admin in the events of the chain since --first-block.
    """
    old_admin, new_admin = wallet(ADMIN).address, wallet(NEW_OWNER).address
    late_block = int(chain.node.ask("eth_blockNumber"), 16) + 1
    assert contracts_cli.run("hand-over", new_admin).code == 0
    before = contracts_cli.transaction_count(NEW_OWNER)

    for first_block in (late_block, late_block + 100):
        options = {"first-block": first_block}
        code, _, err = contracts_cli.run("take-over", by=NEW_OWNER, **options)
        assert code == REFUSED
        assert "--first-block" in err
        assert contracts_cli.transaction_count(NEW_OWNER) == before

    _, late_status = contracts_cli.status("--first-block", late_block)
    assert old_admin in accounts(late_status, "admin")
    assert contracts_cli.run("take-over", by=NEW_OWNER).code == 0
    admins = holders(contracts_cli.status()[1], "admin")
    assert admins == {(contract, new_admin) for contract in governed_contracts}


@SEALED_OR_NOT
def test_take_over_fails_until_a_third_admin_is_revoked(contracts_cli, governed_contracts):
    new_admin, third = wallet(NEW_OWNER).address, wallet(POOR).address
    assert contracts_cli.run("hand-over", new_admin).code == 0
    assert contracts_cli.run("grant", "admin", third).code == 0

    code, _, err = contracts_cli.run("take-over", by=NEW_OWNER)

    assert code == REFUSED
    assert f"{third} is still admin of MetaScheduler" in err
    assert contracts_cli.run("revoke", "admin", third, by=NEW_OWNER).code == 0
    assert contracts_cli.run("take-over", by=NEW_OWNER).code == 0
    admins = holders(contracts_cli.status()[1], "admin")
    assert admins == {(contract, new_admin) for contract in governed_contracts}


@on_unsealed
def test_sealed_set_of_contracts_continues_to_work(contracts_cli, chain):
    assert contracts_cli.run("seal", by=NEW_OWNER).code == REFUSED
    before = contracts_cli.transaction_count()

    assert contracts_cli.run("seal").code == 0
    assert contracts_cli.run("seal").code == 0

    assert contracts_cli.transaction_count() == before + 1
    assert_sealed(inspect(chain))
    assert contracts_cli.status()[0] == 0
    RealGrid(chain).request("script-1")
    assert contracts_cli.run("hand-over", wallet(NEW_OWNER).address).code == 0
    assert contracts_cli.run("take-over", by=NEW_OWNER).code == 0
    assert_sealed(inspect(chain))


def assert_sealed(state):
    assert state.is_sealed
    assert check_contracts(state) == ()


def invalid_commands(contracts_cli):
    """Return the arguments, options, exit code and error text of invalid commands, by name."""
    admin = wallet(ADMIN).address
    credit = contracts_cli.chain.addresses["Credit"]
    return {
        "another chain": (("close",), {"chain-id": 5}, CONFIG_ERROR, "the chain must be 5"),
        "no contract": (
            ("close",),
            {"contract": UNUSED_ADDRESS},
            INPUT_ERROR,
            f"there is no contract at {UNUSED_ADDRESS}",
        ),
        "a wallet as contract": (
            ("close",),
            {"contract": admin},
            INPUT_ERROR,
            f"there is no contract at {admin}",
        ),
        "another contract": (
            ("close",),
            {"contract": credit},
            CONFIG_ERROR,
            "cannot find the grid's",
        ),
        "no role": (
            ("grant", "matcher", UNUSED_ADDRESS),
            {"by": NEW_OWNER},
            REFUSED,
            f"{wallet(NEW_OWNER).address} is not admin of MetaScheduler",
        ),
        "not the owner": (
            ("set-constant", "deepsquareCut", "9"),
            {"by": NEW_OWNER},
            REFUSED,
            "may not set constants",
        ),
        "last admin": (
            ("revoke", "admin", admin),
            {},
            REFUSED,
            "is the last admin",
        ),
        "to itself": (
            ("hand-over", admin),
            {},
            INPUT_ERROR,
            "is the wallet that hands over",
        ),
        "to a contract": (("hand-over", credit), {}, INPUT_ERROR, "cannot hand over to"),
        "no endpoint": (
            ("close",),
            {"rpc-url": "http://127.0.0.1:1"},
            TRANSIENT_ERROR,
            "could not reach the chain",
        ),
        "no file": (("close",), {"deployment": "/nonexistent"}, CONFIG_ERROR, "it does not exist"),
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
