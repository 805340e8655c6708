# SPDX-License-Identifier: Apache-2.0
"""Administering a set of contracts on a real chain, through the command line."""

from __future__ import annotations

import json

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

from gridstead.adapters.chain.administrator import Administrator
from gridstead.adapters.chain.inspection import Inspector
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.domain.administration import CONSTANTS, hand_over, set_constant, take_over
from gridstead.domain.contract_checks import check_contracts
from gridstead.domain.deployment import ROLE_CONTRACTS, Role
from gridstead.errors import NotAllowed, TransactionReverted

GOVERNED = (
    "MetaScheduler",
    "ProviderManager",
)  # the contracts with an admin, once JobRepository is sealed
SEALED_OR_NOT = pytest.mark.parametrize(
    ("generation", "governed"),
    [("ours", GOVERNED), ("unsealed", ROLE_CONTRACTS)],
    indirect=["generation"],
)


def test_a_role_is_granted_once_and_revoked_once(contracts_cli):
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
    assert (code, [one["function"] for one in json.loads(out)["steps"]]) == (0, ["revokeRole"] * 2)
    assert account not in {one for _, one in holders(contracts_cli.status()[1], "matcher")}


COMMANDS = {
    "grant": ("grant", "matcher", wallet(NEW_OWNER).address),
    "revoke": ("revoke", "matcher", wallet(2).address),
    "set-constant": ("set-constant", "deepsquareCut", "25"),
    "close": ("close",),
    "hand-over": ("hand-over", wallet(NEW_OWNER).address),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dry_run_says_what_would_be_sent_and_changes_nothing(contracts_cli, chain, command):
    before = inspect(chain)

    code, out, _ = contracts_cli.run(*COMMANDS[command], "--dry-run", "--json")

    told = json.loads(out)
    assert (code, told["dry_run"], told["changed"], told["transactions"]) == (0, True, False, [])
    assert inspect(chain) == before
    assert [one["nonce"] for one in told["steps"]] == [
        contracts_cli.sent() + place for place in range(len(told["steps"]))
    ]
    assert all(
        one["gas"] > 21_000 and one["to"] in chain.addresses.values() for one in told["steps"]
    )
    done = json.loads(contracts_cli.run(*COMMANDS[command], "--json")[1])
    assert [(one["to"], one["data"], one["nonce"]) for one in done["steps"]] == [
        (one["to"], one["data"], one["nonce"]) for one in told["steps"]
    ]
    for one, mined in zip(done["steps"], done["transactions"], strict=True):
        assert chain.anvil.rpc("eth_getTransactionByHash", mined["hash"])["input"] == one["data"]


def test_a_constant_is_set_and_old_and_new_are_shown(contracts_cli):
    code, out, _ = contracts_cli.run("set-constant", "minimum-amount", "0.5")
    assert (code, out.splitlines()[0]) == (0, "minimumAmount is 0.5 credits, it was 100 credits")

    code, out, _ = contracts_cli.run("set-constant", "minimumAmount", "0.5", "--json")
    told = json.loads(out)
    assert (code, told["old"], told["new"], told["unit"], told["steps"]) == (
        0,
        COIN // 2,
        COIN // 2,
        "wei",
        [],
    )


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda one: one.name)
def test_the_bounds_are_the_contracts(chain, constant):
    """So nothing is refused here that the contract would take, nor the other way round."""
    node, contract, setter = (
        chain.node,
        chain.contracts.constants,
        f"set{constant.name[0].upper()}{constant.name[1:]}",
    )

    def is_taken(value):
        if value < 0:
            return False  # the argument cannot even be written
        call = {
            "from": wallet(ADMIN).address,
            "to": contract.address,
            "data": contract.data(setter, value),
        }
        (answer,) = node.batch([("eth_call", [call, "latest"])])
        return not isinstance(answer, RpcError)

    assert (is_taken(constant.least), is_taken(constant.most)) == (True, True)
    assert (is_taken(constant.least - 1), is_taken(constant.most + 1)) == (False, False)


def test_a_refusal_of_the_contract_is_translated(chain):
    """As of contracts with other bounds than this release knows."""
    cut = next(one for one in CONSTANTS if one.name == "deepsquareCut")
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


def test_a_set_is_closed_for_new_jobs_and_opened_again(contracts_cli, chain):
    assert contracts_cli.run("close")[0] == 0
    assert contracts_cli.status()[1]["accepts_jobs"] is False
    with pytest.raises(TransactionReverted, match="NewJobRequestDisabled"):
        RealGrid(chain).request("script-1")
    assert contracts_cli.run("open")[0] == 0
    RealGrid(chain).request("script-1")


@SEALED_OR_NOT
def test_the_admin_is_handed_over_in_two_steps(contracts_cli, governed):
    old, new = wallet(ADMIN).address, wallet(NEW_OWNER).address
    assert contracts_cli.run("take-over", by=NEW_OWNER)[0] == REFUSED

    assert contracts_cli.run("hand-over", new)[0] == 0
    assert contracts_cli.run("set-constant", "deepsquareCut", "21")[0] == 0
    assert contracts_cli.run("take-over", by=NEW_OWNER)[0] == 0

    code, found = contracts_cli.status()
    assert code == 0
    assert holders(found, "admin") == {(one, new) for one in governed}
    assert {o["contract"]: o["owner"] for o in found["owners"] if o["contract"] in {"Constants", "Credit"}} == {
        "Constants": new, "Credit": new,
    }  # fmt: skip
    assert old not in {one for _, one in holders(found, "admin")}
    sent = contracts_cli.sent(NEW_OWNER)
    assert (
        contracts_cli.run("take-over", by=NEW_OWNER)[0]
        == contracts_cli.run("hand-over", new)[0]
        == 0
    )
    assert contracts_cli.sent(NEW_OWNER) == sent
    assert contracts_cli.run("set-constant", "deepsquareCut", "22")[0] == REFUSED


@pytest.mark.parametrize(
    ("generation", "governed", "at", "waits"),
    [
        *(("unsealed", ROLE_CONTRACTS, at, False) for at in range(1, 6)),
        *(("ours", GOVERNED, at, False) for at in range(1, 5)),
        ("ours", GOVERNED, 1, True),
    ],
    indirect=["generation"],
)
def test_a_change_of_admin_that_dies_anywhere_is_finished_and_sends_nothing_twice(
    chain, governed, at, waits
):
    """Also when the last transaction was in no block yet when the process died."""
    old, new = wallet(ADMIN), wallet(NEW_OWNER)
    chain.anvil.fund(new.address)

    def carry_out(node, who, plan):
        inspector = Inspector(chain.node, chain.contracts, report=lambda _: None)
        Administrator(node, inspector, who, report=lambda _: None).carry_out(
            plan, accounts=(old.address, new.address)
        )

    class MiningLate(Node):
        def batch(self, requests):
            answers = super().batch(requests)
            if waits and any(method == "eth_getTransactionCount" for method, _ in requests):
                super().batch([("evm_mine", [])])
            return answers

    for who, plan in (
        (old, lambda state: hand_over(state, old.address, new.address)),
        (new, lambda state: take_over(state, new.address)),
    ):
        before = int(chain.node.ask("eth_getTransactionCount", who.address, "latest"), 16)
        mortal = MortalNode(chain.anvil.url, at, sent=True)
        chain.anvil.rpc("evm_setAutomine", not waits)
        with pytest.raises(Crash):
            carry_out(mortal, who, plan)
        mortal.close()
        assert (
            int(chain.node.ask("eth_getTransactionCount", who.address, "pending"), 16)
            == before + at
        )
        patient = MiningLate(chain.anvil.url)
        carry_out(patient, who, plan)
        patient.close()
        assert (
            int(chain.node.ask("eth_getTransactionCount", who.address, "latest"), 16)
            == before + len(governed) + 2
        )
        assert all(inspect(chain).accounts(contract, Role.ADMIN) for contract in governed)

    state = inspect(chain)
    assert [one.hint for one in check_contracts(state)] == (
        [] if state.is_sealed else ["Run `gridstead contracts seal`."]
    )
    assert {one.contract for one in state.holders if one.role is Role.ADMIN} == set(governed)
    assert state.accounts("MetaScheduler", Role.ADMIN) == (new.address,)


@SEALED_OR_NOT
def test_who_takes_over_knows_from_whom_or_is_told_how(contracts_cli, chain, governed):
    """A search that begins too late does not see who was admin before; the old one must not stay
    unseen.
    """
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

    assert (
        old
        in {
            one
            for _, one in holders(
                contracts_cli.status("--first-block", late["first-block"])[1], "admin"
            )
        }
    ) is True
    assert contracts_cli.run("grant", "admin", wallet(POOR).address)[0] == 0
    code, _, err = contracts_cli.run("take-over", by=NEW_OWNER)
    assert (code, f"{wallet(POOR).address} is still admin of MetaScheduler" in err) == (
        REFUSED,
        True,
    )
    assert contracts_cli.run("revoke", "admin", wallet(POOR).address, by=NEW_OWNER)[0] == 0
    assert contracts_cli.run("take-over", by=NEW_OWNER)[0] == 0
    assert holders(contracts_cli.status()[1], "admin") == {(one, new) for one in governed}


@on_unsealed
def test_a_repository_is_sealed_and_the_grid_goes_on(contracts_cli, chain):
    assert contracts_cli.run("seal", by=NEW_OWNER)[0] == REFUSED
    before = contracts_cli.sent()

    assert contracts_cli.run("seal")[0] == contracts_cli.run("seal")[0] == 0

    assert contracts_cli.sent() == before + 1
    assert (check_contracts(inspect(chain)), inspect(chain).is_sealed) == ((), True)
    assert contracts_cli.status()[0] == 0
    RealGrid(chain).request("script-1")
    assert (
        contracts_cli.run("hand-over", wallet(NEW_OWNER).address)[0]
        == contracts_cli.run("take-over", by=NEW_OWNER)[0]
        == 0
    )
    assert (check_contracts(inspect(chain)), inspect(chain).is_sealed) == ((), True)


def bad(contracts_cli):
    """Return commands that cannot be right, their exit code, and words of the one error."""
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


def test_what_cannot_be_right_is_one_clear_error_and_sends_nothing(contracts_cli):
    before = contracts_cli.sent(), contracts_cli.sent(NEW_OWNER)

    for what, (arguments, options, code, words) in bad(contracts_cli).items():
        done = contracts_cli.run(*arguments, **options)
        assert (what, done[0], done[1]) == (what, code, "")
        assert (what, words in done[2]) == (what, True), done[2]
        assert done[2].count("error: ") == 1

    assert (contracts_cli.sent(), contracts_cli.sent(NEW_OWNER)) == before


def test_a_wallet_without_coins_is_told(contracts_cli, chain):
    assert contracts_cli.run("grant", "admin", wallet(POOR).address)[0] == 0

    code, _, err = contracts_cli.run("grant", "matcher", NOWHERE, by=POOR)

    assert code == CONFIG
    assert f"cannot pay for transactions of {wallet(POOR).address}" in err
    assert SENDING not in err
