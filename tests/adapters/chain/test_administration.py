# SPDX-License-Identifier: Apache-2.0
"""Administering a set of contracts on a real chain, through the command line."""

from __future__ import annotations

import json
from operator import itemgetter

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.contracts_command import (
    ADMIN,
    CONFIG,
    INPUT,
    LATER,
    NEW_OWNER,
    NOWHERE,
    POOR,
    REFUSED,
    holders,
    inspect,
)
from tests.adapters.chain.deploying import SENDING, Crash, MortalNode
from tests.adapters.chain.generations import on_unsealed
from tests.devnet import COIN, wallet

from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.contracts.administrator import Administrator
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.domain.contracts.administration import (
    CONSTANTS,
    find_constant,
    hand_over,
    set_constant,
    take_over,
)
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.contracts.deployment import ROLE_CONTRACTS, Role
from gridstead.errors import NotAllowed, TransactionReverted

GOVERNED = (
    "MetaScheduler",
    "ProviderManager",
)  # the contracts that have an admin after JobRepository is sealed
SEALED_OR_NOT = pytest.mark.parametrize(
    ("generation", "governed"),
    [("ours", GOVERNED), ("unsealed", ROLE_CONTRACTS)],
    indirect=["generation"],
)


def test_role_is_granted_once_and_revoked_once(contracts_cli):
    account = wallet(NEW_OWNER).address
    before = contracts_cli.sent()

    assert contracts_cli.run("grant", "matcher", account)[0] == 0
    code, out, _ = contracts_cli.run("grant", "matcher", account)

    assert (code, out, contracts_cli.sent()) == (
        0,
        "nothing to change: no transaction was sent\n",
        before + 2,
    )
    assert ("ProviderManager", account) in holders(contracts_cli.status()[1], "matcher")
    code, out, _ = contracts_cli.run("revoke", "matcher", account, "--json")
    functions = [step["function"] for step in json.loads(out)["steps"]]
    assert (code, functions) == (0, ["revokeRole"] * 2)
    assert account not in accounts(contracts_cli.status()[1], "matcher")


def accounts(status, role):
    return {account for _, account in holders(status, role)}


COMMANDS = {
    "grant": ("grant", "matcher", wallet(NEW_OWNER).address),
    "revoke": ("revoke", "matcher", wallet(2).address),
    "set-constant": ("set-constant", "deepsquareCut", "25"),
    "close": ("close",),
    "hand-over": ("hand-over", wallet(NEW_OWNER).address),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_dry_run_prints_the_transactions_and_changes_nothing(contracts_cli, chain, command):
    before = inspect(chain)

    code, out, _ = contracts_cli.run(*COMMANDS[command], "--dry-run", "--json")

    plan = json.loads(out)
    assert (code, plan["dry_run"], plan["changed"], plan["transactions"]) == (0, True, False, [])
    assert inspect(chain) == before
    for nonce, step in enumerate(plan["steps"], contracts_cli.sent()):
        assert step["nonce"] == nonce
        assert step["gas"] > 21_000
        assert step["to"] in chain.addresses.values()
    done = json.loads(contracts_cli.run(*COMMANDS[command], "--json")[1])
    to_transaction = itemgetter("to", "data", "nonce")
    assert list(map(to_transaction, done["steps"])) == list(map(to_transaction, plan["steps"]))
    for step, mined in zip(done["steps"], done["transactions"], strict=True):
        assert chain.anvil.rpc("eth_getTransactionByHash", mined["hash"])["input"] == step["data"]


def test_set_constant_prints_the_old_and_the_new_value(contracts_cli):
    code, out, _ = contracts_cli.run("set-constant", "minimum-amount", "0.5")
    assert (code, out.splitlines()[0]) == (0, "minimumAmount is 0.5 credits, it was 100 credits")

    code, out, _ = contracts_cli.run("set-constant", "minimumAmount", "0.5", "--json")
    result = json.loads(out)
    assert (code, result["old"], result["new"], result["unit"], result["steps"]) == (
        0,
        COIN // 2,
        COIN // 2,
        "wei",
        [],
    )


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda constant: constant.name)
def test_bounds_equal_those_of_the_contract(chain, constant):
    """The command line and the contract refuse the same values."""
    node, contract = chain.node, chain.contracts.constants
    setter = f"set{constant.name[0].upper()}{constant.name[1:]}"

    def is_accepted(value):
        if value < 0:
            return False  # cannot be encoded
        call = {
            "from": wallet(ADMIN).address,
            "to": contract.address,
            "data": contract.data(setter, value),
        }
        (answer,) = node.batch([("eth_call", [call, "latest"])])
        return not isinstance(answer, RpcError)

    assert (is_accepted(constant.least), is_accepted(constant.most)) == (True, True)
    assert (is_accepted(constant.least - 1), is_accepted(constant.most + 1)) == (False, False)


def test_refusal_of_the_contract_has_a_hint(chain):
    """For example of contracts whose bounds differ from this release's."""
    cut = find_constant("deepsquareCut")
    wider = type(cut)(name=cut.name, unit=cut.unit, least=0, most=1000, meaning="")
    inspector = Inspector(chain.node, chain.contracts, report=lambda _: None)
    administrator = Administrator(chain.node, inspector, wallet(ADMIN), report=lambda _: None)

    with pytest.raises(NotAllowed, match=r"Constants refuses setDeepsquareCut\(101\)") as refusal:
        administrator.carry_out(
            lambda state: set_constant(state, wallet(ADMIN).address, wider, 101)
        )

    assert refusal.value.detail == 'Error: "Constants: value out of bounds"'
    assert "bounds of these contracts differ" in refusal.value.hint
    assert isinstance(refusal.value.__cause__, TransactionReverted)


def test_set_is_closed_and_opened(contracts_cli, chain):
    assert contracts_cli.run("close")[0] == 0
    assert contracts_cli.status()[1]["accepts_jobs"] is False
    with pytest.raises(TransactionReverted, match="NewJobRequestDisabled"):
        RealGrid(chain).request("script-1")
    assert contracts_cli.run("open")[0] == 0
    RealGrid(chain).request("script-1")


@SEALED_OR_NOT
def test_administrator_is_replaced_in_two_steps(contracts_cli, governed):
    old, new = wallet(ADMIN).address, wallet(NEW_OWNER).address
    assert contracts_cli.run("take-over", by=NEW_OWNER)[0] == REFUSED

    assert contracts_cli.run("hand-over", new)[0] == 0
    assert contracts_cli.run("set-constant", "deepsquareCut", "21")[0] == 0
    assert contracts_cli.run("take-over", by=NEW_OWNER)[0] == 0

    code, status = contracts_cli.status()
    assert code == 0
    assert holders(status, "admin") == {(contract, new) for contract in governed}
    owners = {entry["contract"]: entry["owner"] for entry in status["owners"]}
    assert (owners["Constants"], owners["Credit"]) == (new, new)
    assert old not in accounts(status, "admin")
    sent = contracts_cli.sent(NEW_OWNER)
    assert contracts_cli.run("take-over", by=NEW_OWNER)[0] == 0
    assert contracts_cli.run("hand-over", new)[0] == 0
    assert contracts_cli.sent(NEW_OWNER) == sent
    assert contracts_cli.run("set-constant", "deepsquareCut", "22")[0] == REFUSED


@pytest.mark.parametrize(
    ("generation", "governed", "position", "waits"),
    [
        *(("unsealed", ROLE_CONTRACTS, position, False) for position in range(1, 6)),
        *(("ours", GOVERNED, position, False) for position in range(1, 5)),
        ("ours", GOVERNED, 1, True),
    ],
    indirect=["generation"],
)
def test_interrupted_change_of_admin_is_finished_without_repetition(
    chain, governed, position, waits
):
    """Also if the last transaction was pending when the process died."""
    old, new = wallet(ADMIN), wallet(NEW_OWNER)
    chain.anvil.fund(new.address)

    def carry_out(node, sender, plan):
        inspector = Inspector(chain.node, chain.contracts, report=lambda _: None)
        Administrator(node, inspector, sender, report=lambda _: None).carry_out(
            plan, accounts=(old.address, new.address)
        )

    def count(sender, block):
        return int(chain.node.ask("eth_getTransactionCount", sender.address, block), 16)

    class MiningLate(Node):
        def batch(self, requests):
            answers = super().batch(requests)
            if waits and any(method == "eth_getTransactionCount" for method, _ in requests):
                super().batch([("evm_mine", [])])
            return answers

    for sender, plan in (
        (old, lambda state: hand_over(state, old.address, new.address)),
        (new, lambda state: take_over(state, new.address)),
    ):
        before = count(sender, "latest")
        mortal = MortalNode(chain.anvil.url, position, sent=True)
        chain.anvil.rpc("evm_setAutomine", not waits)
        with pytest.raises(Crash):
            carry_out(mortal, sender, plan)
        mortal.close()
        assert count(sender, "pending") == before + position
        mining = MiningLate(chain.anvil.url)
        carry_out(mining, sender, plan)
        mining.close()
        assert count(sender, "latest") == before + len(governed) + 2
        assert all(inspect(chain).accounts(contract, Role.ADMIN) for contract in governed)

    state = inspect(chain)
    hints = [diagnostic.hint for diagnostic in check_contracts(state)]
    assert hints == ([] if state.is_sealed else ["Run `gridstead contracts seal`."])
    admins = [holder for holder in state.holders if holder.role is Role.ADMIN]
    assert {holder.contract for holder in admins} == set(governed)
    assert state.accounts("MetaScheduler", Role.ADMIN) == (new.address,)


@SEALED_OR_NOT
def test_take_over_needs_the_old_admin(contracts_cli, chain, governed):
    """A search that starts too late does not find the old admin, who must not keep the role."""
    old, new = wallet(ADMIN).address, wallet(NEW_OWNER).address
    middle = chain.node.ask("eth_blockNumber")
    assert contracts_cli.run("hand-over", new)[0] == 0
    late = {"first-block": int(middle, 16) + 1}
    before = contracts_cli.sent(NEW_OWNER)

    for options in (late, {"first-block": late["first-block"] + 100}):
        code, _, err = contracts_cli.run("take-over", by=NEW_OWNER, **options)
        assert (code, "--first-block" in err, contracts_cli.sent(NEW_OWNER)) == (
            REFUSED,
            True,
            before,
        )

    _, late_status = contracts_cli.status("--first-block", late["first-block"])
    assert old in accounts(late_status, "admin")
    assert contracts_cli.run("grant", "admin", wallet(POOR).address)[0] == 0
    code, _, err = contracts_cli.run("take-over", by=NEW_OWNER)
    assert (code, f"{wallet(POOR).address} is still admin of MetaScheduler" in err) == (
        REFUSED,
        True,
    )
    assert contracts_cli.run("revoke", "admin", wallet(POOR).address, by=NEW_OWNER)[0] == 0
    assert contracts_cli.run("take-over", by=NEW_OWNER)[0] == 0
    admins = holders(contracts_cli.status()[1], "admin")
    assert admins == {(contract, new) for contract in governed}


@on_unsealed
def test_sealed_set_continues_to_work(contracts_cli, chain):
    assert contracts_cli.run("seal", by=NEW_OWNER)[0] == REFUSED
    before = contracts_cli.sent()

    assert contracts_cli.run("seal")[0] == contracts_cli.run("seal")[0] == 0

    assert contracts_cli.sent() == before + 1
    assert (check_contracts(inspect(chain)), inspect(chain).is_sealed) == ((), True)
    assert contracts_cli.status()[0] == 0
    RealGrid(chain).request("script-1")
    assert contracts_cli.run("hand-over", wallet(NEW_OWNER).address)[0] == 0
    assert contracts_cli.run("take-over", by=NEW_OWNER)[0] == 0
    assert (check_contracts(inspect(chain)), inspect(chain).is_sealed) == ((), True)


def invalid_commands(contracts_cli):
    """Return invalid commands with their options, exit code, and a text of the error."""
    good = wallet(NEW_OWNER).address
    nobody, credit = wallet(ADMIN).address, contracts_cli.chain.addresses["Credit"]
    return {
        "another chain": (("close",), {"chain-id": 5}, CONFIG, "the chain must be 5"),
        "no contract": (
            ("close",),
            {"contract": NOWHERE},
            INPUT,
            f"there is no contract at {NOWHERE}",
        ),
        "a wallet as contract": (
            ("close",),
            {"contract": nobody},
            INPUT,
            f"there is no contract at {nobody}",
        ),
        "another contract": (
            ("close",),
            {"contract": contracts_cli.chain.addresses["Credit"]},
            CONFIG,
            "cannot find the grid's",
        ),
        "no role": (
            ("grant", "matcher", NOWHERE),
            {"by": NEW_OWNER},
            REFUSED,
            f"{good} is not admin of MetaScheduler",
        ),
        "not the owner": (
            ("set-constant", "deepsquareCut", "9"),
            {"by": NEW_OWNER},
            REFUSED,
            "may not set constants",
        ),
        "last admin": (
            ("revoke", "admin", wallet(ADMIN).address),
            {},
            REFUSED,
            "is the last admin",
        ),
        "to itself": (
            ("hand-over", wallet(ADMIN).address),
            {},
            INPUT,
            "is the wallet that hands over",
        ),
        "to a contract": (("hand-over", credit), {}, INPUT, "cannot hand over to"),
        "no endpoint": (
            ("close",),
            {"rpc-url": "http://127.0.0.1:1"},
            LATER,
            "could not reach the chain",
        ),
        "no file": (("close",), {"deployment": "/nonexistent"}, CONFIG, "it does not exist"),
    }


def test_invalid_command_prints_one_error_and_sends_nothing(contracts_cli):
    before = contracts_cli.sent(), contracts_cli.sent(NEW_OWNER)

    for what, (arguments, options, code, words) in invalid_commands(contracts_cli).items():
        done = contracts_cli.run(*arguments, **options)
        assert (what, done[0], done[1]) == (what, code, "")
        assert (what, words in done[2]) == (what, True), done[2]
        assert done[2].count("error: ") == 1

    assert (contracts_cli.sent(), contracts_cli.sent(NEW_OWNER)) == before


def test_wallet_without_coins_is_an_error(contracts_cli, chain):
    assert contracts_cli.run("grant", "admin", wallet(POOR).address)[0] == 0

    code, _, err = contracts_cli.run("grant", "matcher", NOWHERE, by=POOR)

    assert code == CONFIG
    assert f"cannot pay for transactions of {wallet(POOR).address}" in err
    assert SENDING not in err
