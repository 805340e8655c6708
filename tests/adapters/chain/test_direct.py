# SPDX-License-Identifier: Apache-2.0
"""Transactions that are sent at once, on a chain with errors and delays."""

from __future__ import annotations

import pytest
from tests.devnet import wallet

from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.transactions.outbox import Taken
from gridstead.errors import ChainUnavailable


@pytest.fixture
def still(chain):
    """The chain, without mining."""
    chain.anvil.rpc("evm_setAutomine", False)
    return chain


def test_pending_transaction_is_not_reported_as_failed(still):
    with pytest.raises(ChainUnavailable, match="could not confirm transfer of coins") as error:
        DirectSender(still.node, still.admin, timeout_s=0.3).transfer(wallet(90).address, 1)

    assert "is in no block after 0.3 s" in error.value.detail


def test_start_waits_for_pending_transactions(still):
    sender = DirectSender(still.node, still.admin, timeout_s=0.3)
    with pytest.raises(ChainUnavailable):
        sender.transfer(wallet(90).address, 1)

    with pytest.raises(ChainUnavailable, match="could not start"):
        sender.wait_for_own()

    still.anvil.mine()
    sender.wait_for_own()


def test_replaced_transaction_is_an_error(still):
    class Replacing(DirectSender):
        """Another program replaces the transaction, and its transaction is mined."""

        def give(self, draft):
            taken = super().give(draft)
            still.anvil.rpc("anvil_dropAllTransactions")
            still.anvil.rpc("evm_setAutomine", True)
            DirectSender(still.node, still.admin).transfer(wallet(91).address, 1)
            return taken

    with pytest.raises(ChainUnavailable) as error:
        Replacing(still.node, still.admin).transfer(wallet(90).address, 1)

    assert "another transaction of the wallet replaced" in error.value.detail


def test_wallet_in_constant_use_by_another_program_is_an_error(chain):
    class Crowded(DirectSender):
        def give(self, draft):
            return Taken.STALE

    with pytest.raises(ChainUnavailable, match="could not send transfer of coins"):
        Crowded(chain.node, chain.admin).transfer(wallet(90).address, 1)
