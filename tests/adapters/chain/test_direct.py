# SPDX-License-Identifier: Apache-2.0
"""Transactions that are sent at once, when the chain does not do as one would like."""

from __future__ import annotations

import pytest
from tests.devnet import wallet

from gridstead.adapters.chain.direct import DirectSender
from gridstead.domain.sending import Taken
from gridstead.errors import ChainUnavailable


@pytest.fixture
def still(chain):
    """The chain, and nobody mines."""
    chain.anvil.rpc("evm_setAutomine", False)
    return chain


def test_a_transaction_that_is_not_mined_in_time_is_not_said_to_have_failed(still):
    with pytest.raises(ChainUnavailable, match="could not confirm transfer of coins") as told:
        DirectSender(still.node, still.admin, timeout_s=0.3).transfer(wallet(90).address, 1)

    assert "is in no block after 0.3 s" in told.value.detail


def test_nothing_is_begun_while_something_waits(still):
    sender = DirectSender(still.node, still.admin, timeout_s=0.3)
    with pytest.raises(ChainUnavailable):
        sender.transfer(wallet(90).address, 1)

    with pytest.raises(ChainUnavailable, match="could not start"):
        sender.wait_for_own()

    still.anvil.mine()
    sender.wait_for_own()


def test_a_transaction_that_another_one_replaced_is_told(still):
    class Replacing(DirectSender):
        """Another program sends more for the same nonce, and is mined."""

        def give(self, draft):
            taken = super().give(draft)
            still.anvil.rpc("anvil_dropAllTransactions")
            still.anvil.rpc("evm_setAutomine", True)
            DirectSender(still.node, still.admin).transfer(wallet(91).address, 1)
            return taken

    with pytest.raises(ChainUnavailable) as told:
        Replacing(still.node, still.admin).transfer(wallet(90).address, 1)

    assert "another transaction of the wallet replaced" in told.value.detail


def test_a_wallet_that_others_use_all_the_time_is_told(chain):
    class Crowded(DirectSender):
        def give(self, draft):
            return Taken.STALE

    with pytest.raises(ChainUnavailable, match="could not send transfer of coins"):
        Crowded(chain.node, chain.admin).transfer(wallet(90).address, 1)
