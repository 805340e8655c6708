# SPDX-License-Identifier: Apache-2.0
"""Tests of `contracts hand-over` and `contracts take-over`, which change the admin."""

from __future__ import annotations

import pytest
from tests.adapters.chain.contracts_command import (
    ADMIN,
    NEW_OWNER,
    POOR,
    REFUSED,
    accounts,
    holders,
    inspect,
)
from tests.adapters.chain.deploying import CrashingNode, has_method
from tests.devnet import wallet
from tests.fakes.crash import Crash

from gridstead.adapters.chain.node import Node
from gridstead.adapters.contracts.administrator import Administrator
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.domain.contracts.administration import hand_over, take_over
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.contracts.deployment import ROLE_CONTRACTS, Role

# The contracts that still have an admin after JobRepository is sealed.
GOVERNED = ("MetaScheduler", "ProviderManager")
# Runs a test twice: once on a sealed set of contracts, and once on an unsealed set.
# ``governed_contracts`` are the contracts of the set that have an admin.
SEALED_OR_NOT = pytest.mark.parametrize(
    ("generation", "governed_contracts"),
    [("ours", GOVERNED), ("unsealed", ROLE_CONTRACTS)],
    indirect=["generation"],
)


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
    count_before = contracts_cli.transaction_count(NEW_OWNER)
    assert contracts_cli.run("take-over", by=NEW_OWNER).code == 0
    assert contracts_cli.run("hand-over", new_admin).code == 0
    assert contracts_cli.transaction_count(NEW_OWNER) == count_before
    assert contracts_cli.run("set-constant", "deepsquareCut", "22").code == REFUSED


class NodeThatMinesLate(Node):
    """A node that mines pending transactions after it has answered a request for a nonce.

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
        count_before = self._count(sender, "latest")
        self._chain.anvil.rpc("evm_setAutomine", not self._is_pending)
        crashing_node = CrashingNode(self._chain.anvil.url, self._position, sent=True)
        with pytest.raises(Crash):
            self._carry_out(crashing_node, sender, plan)
        crashing_node.close()
        assert self._count(sender, "pending") == count_before + self._position
        node_class = NodeThatMinesLate if self._is_pending else Node
        node = node_class(self._chain.anvil.url)
        self._carry_out(node, sender, plan)
        node.close()
        return self._count(sender, "latest") - count_before

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
    # The hand-over starts in this block. The old admin got the role in an earlier block.
    late_block = int(chain.node.ask("eth_blockNumber"), 16) + 1
    assert contracts_cli.run("hand-over", new_admin).code == 0
    count_before = contracts_cli.transaction_count(NEW_OWNER)

    # The second number is higher than that of the newest block.
    for first_block in (late_block, late_block + 100):
        options = {"first-block": first_block}
        code, _, err = contracts_cli.run("take-over", by=NEW_OWNER, **options)
        assert code == REFUSED
        assert "--first-block" in err
        assert contracts_cli.transaction_count(NEW_OWNER) == count_before

    _, late_status = contracts_cli.status("--first-block", late_block)
    assert old_admin in accounts(late_status, "admin")
    assert contracts_cli.run("take-over", by=NEW_OWNER).code == 0
    admins = holders(contracts_cli.status()[1], "admin")
    assert admins == {(contract, new_admin) for contract in governed_contracts}


@SEALED_OR_NOT
def test_take_over_fails_until_a_third_admin_loses_the_role(contracts_cli, governed_contracts):
    new_admin, third_admin = wallet(NEW_OWNER).address, wallet(POOR).address
    assert contracts_cli.run("hand-over", new_admin).code == 0
    assert contracts_cli.run("grant", "admin", third_admin).code == 0

    code, _, err = contracts_cli.run("take-over", by=NEW_OWNER)

    assert code == REFUSED
    assert f"{third_admin} is still admin of MetaScheduler" in err
    assert contracts_cli.run("revoke", "admin", third_admin, by=NEW_OWNER).code == 0
    assert contracts_cli.run("take-over", by=NEW_OWNER).code == 0
    admins = holders(contracts_cli.status()[1], "admin")
    assert admins == {(contract, new_admin) for contract in governed_contracts}
