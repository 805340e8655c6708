# SPDX-License-Identifier: Apache-2.0
"""Tests of DirectSender, which sends without an outbox, on a chain that fails or is slow."""

from __future__ import annotations

import pytest
from tests.devnet import wallet

from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.transactions.outbox import SendResult
from gridstead.errors import ChainUnavailable


def test_pending_transaction_is_not_reported_as_failed(paused_chain):
    with pytest.raises(ChainUnavailable, match="could not confirm transfer of coins") as error:
        DirectSender(paused_chain.node, paused_chain.admin, timeout_s=0.3).transfer(
            wallet(90).address, 1
        )

    assert "is in no block after 0.3 s" in error.value.detail


def test_wait_for_pending_returns_after_all_transactions_are_mined(paused_chain):
    sender = DirectSender(paused_chain.node, paused_chain.admin, timeout_s=0.3)
    with pytest.raises(ChainUnavailable):
        sender.transfer(wallet(90).address, 1)

    with pytest.raises(ChainUnavailable) as error:
        sender.wait_for_pending()
    assert "are in no block after 0.3 s" in error.value.detail

    paused_chain.anvil.mine()
    sender.wait_for_pending()


def test_replaced_transaction_is_an_error(paused_chain):
    class ReplacedSender(DirectSender):
        """A sender whose transaction another program replaces before it is mined."""

        def submit(self, draft):
            result = super().submit(draft)
            paused_chain.anvil.rpc("anvil_dropAllTransactions")
            paused_chain.anvil.rpc("evm_setAutomine", True)
            DirectSender(paused_chain.node, paused_chain.admin).transfer(wallet(91).address, 1)
            return result

    with pytest.raises(ChainUnavailable) as error:
        ReplacedSender(paused_chain.node, paused_chain.admin).transfer(wallet(90).address, 1)

    assert "another transaction of the wallet replaced" in error.value.detail


def test_a_transaction_that_was_mined_before_the_answer_is_not_sent_again(chain):
    class RepeatingSender(DirectSender):
        """A sender whose first request the node executes before the connection breaks."""

        def submit(self, draft):
            super().submit(draft)
            return super().submit(draft)

    recipient = wallet(92).address
    RepeatingSender(chain.node, chain.admin).transfer(recipient, 1)

    assert int(chain.node.ask("eth_getBalance", recipient, "latest"), 16) == 1


def test_sending_fails_if_another_program_uses_every_nonce(chain):
    class StaleSender(DirectSender):
        """A sender whose nonce is always used by another transaction."""

        def submit(self, draft):
            return SendResult.NONCE_USED

    with pytest.raises(ChainUnavailable, match="could not send transfer of coins"):
        StaleSender(chain.node, chain.admin).transfer(wallet(90).address, 1)
