# SPDX-License-Identifier: Apache-2.0
"""How ChainAccount interprets a node's answer to a transaction, and how much gas claims get."""

from __future__ import annotations

import pytest
from tests.adapters.chain.test_encode import contracts_of_version

from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.node import RpcError
from gridstead.adapters.chain.wallet import wallet_of
from gridstead.adapters.transactions import account as account_module
from gridstead.adapters.transactions.account import ChainAccount, estimate, send_raw
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.transactions.calls import ClaimJobs
from gridstead.domain.transactions.fees import LEAST_TIP
from gridstead.domain.transactions.outbox import Fees, Reply, SendResult, Transaction
from gridstead.errors import ChainUnavailable, ConfigError, TransactionReverted

WALLET = "0x" + "a1" * 20
TRANSACTION = Transaction(
    hash="0x1", nonce=0, raw="0x02", entry_ids=(1,), fees=Fees(max_fee=1, tip=1)
)


class AnsweringNode:
    """A node that gives the same answer to every request."""

    def __init__(self, answer):
        self._answer = answer

    def batch(self, requests):
        return [self._answer for _ in requests]


class AddressOnlyWallet:
    """A wallet that has an address but no key."""

    address = WALLET


class RecordingNode(AnsweringNode):
    """A node that records the requests."""

    requests = ()

    def batch(self, requests):
        self.requests = (*self.requests, *requests)
        return super().batch(requests)


def node_with_error(message, *, code=-32000):
    """Return a node that answers every request with this error."""
    return AnsweringNode(RpcError(code=code, message=message, data=""))


def send(node):
    """Send TRANSACTION, and return the reply."""
    return ChainAccount(node, contracts=None, wallet=AddressOnlyWallet()).send([TRANSACTION])[0]


@pytest.mark.parametrize(
    ("message", "result"),
    [
        ("already known", SendResult.ACCEPTED),
        ("nonce too low: next nonce 5", SendResult.NONCE_USED),
        ("replacement transaction underpriced", SendResult.UNDERPRICED),
    ],
)
def test_known_error_messages_are_classified(message, result):
    assert send(node_with_error(message)) == Reply(result=result)
    assert send_raw(node_with_error(message), "0x02", WALLET) is result


@pytest.mark.parametrize("message", ["exceeds block gas limit", "oversized data", "something new"])
def test_transaction_is_refused_if_the_error_message_is_unknown(message):
    assert send(node_with_error(message)) == Reply(result=SendResult.REFUSED, message=message)
    with pytest.raises(ChainUnavailable, match=message):
        send_raw(node_with_error(message), "0x02", WALLET)


@pytest.mark.parametrize(
    ("message", "code"),
    [("Too Many Requests", 429), ("daily limit", -32005), ("txpool is full", -32000)],
)
def test_transaction_refused_by_an_overloaded_node_is_sent_later(message, code):
    assert send(node_with_error(message, code=code)) == Reply(
        result=SendResult.RETRY_LATER, message=message
    )
    with pytest.raises(ChainUnavailable, match=message):
        send_raw(node_with_error(message, code=code), "0x02", WALLET)


def test_wallet_without_coins_is_a_config_error():
    message = "insufficient funds for gas * price + value"

    assert send(node_with_error(message)) == Reply(result=SendResult.CANNOT_PAY, message=message)
    with pytest.raises(ConfigError, match="cannot pay"):
        send_raw(node_with_error(message), "0x02", WALLET)


def test_call_above_the_block_gas_limit_reverts_in_simulation():
    node = node_with_error("gas required exceeds allowance (30000000)")
    payload = Payload(to=WALLET, data="0x", gas=None)

    with pytest.raises(TransactionReverted):
        estimate(node, WALLET, payload, "ClaimJobs")


@pytest.mark.parametrize(
    ("message", "result"),
    [
        ("FeeTooLow, MaxFeePerGas too low", SendResult.UNDERPRICED),
        ("FeeTooLowToCompete", SendResult.UNDERPRICED),
        ("ReplacementNotAllowed", SendResult.UNDERPRICED),
        ("Gas price below configured minimum gas price", SendResult.UNDERPRICED),
        ("InsufficientFunds, Account balance: 0", SendResult.CANNOT_PAY),
        ("Upfront cost exceeds account balance", SendResult.CANNOT_PAY),
        ("OldNonce, Current nonce: 5", SendResult.NONCE_USED),
        ("NonceGap", SendResult.RETRY_LATER),
        ("Transaction nonce is too distant from current sender nonce", SendResult.RETRY_LATER),
        ("Internal error", SendResult.RETRY_LATER),
    ],
)
def test_error_messages_of_several_node_programs_are_classified(message, result):
    assert (
        account_module._to_reply(RpcError(code=-32010, message=message, data="")).result is result
    )


class FeeNode:
    """A node with a base fee of 10 wei that answers the request for a tip with ``tip``."""

    def __init__(self, tip):
        self._tip = tip

    def batch(self, requests):
        assert [method for method, _ in requests] == [
            "eth_getBlockByNumber",
            "eth_maxPriorityFeePerGas",
        ]
        return [{"baseFeePerGas": hex(10)}, self._tip]


NO_SUCH_METHOD = RpcError(code=-32601, message="the method does not exist", data="")


@pytest.mark.parametrize(
    ("tip", "fees"),
    [
        (hex(5 * LEAST_TIP), Fees(max_fee=20 + 5 * LEAST_TIP, tip=5 * LEAST_TIP)),
        (hex(1), Fees(max_fee=20 + LEAST_TIP, tip=LEAST_TIP)),
        (NO_SUCH_METHOD, Fees(max_fee=20 + LEAST_TIP, tip=LEAST_TIP)),
    ],
)
def test_services_and_commands_offer_the_same_fees(tip, fees):
    node = FeeNode(tip)

    assert ChainAccount(node, contracts=None, wallet=AddressOnlyWallet()).fees() == fees
    assert DirectSender(node, AddressOnlyWallet()).fees() == fees


def test_fees_of_an_overloaded_node_are_unavailable():
    error = RpcError(code=-32005, message="daily limit", data="")

    with pytest.raises(ChainUnavailable, match="a request for the fees"):
        DirectSender(FeeNode(error), AddressOnlyWallet()).fees()


AVAILABLE_GAS = 2_000_000


@pytest.mark.parametrize(
    ("limit", "estimate", "gas"),
    [
        # The estimate is too low, so the claim gets 210,000 gas plus 60,000 for each job.
        (10, 90_000, 810_000),
        # The available gas limits the claim to 29 jobs.
        (50, 90_000, 1_950_000),
        # The estimate plus a third is higher than this sum, so the claim gets it, but never more
        # than the available gas.
        (1, 300_000, 400_000),
        (50, 1_600_000, AVAILABLE_GAS),
    ],
)
def test_claim_gets_gas_for_jobs_that_are_matched_after_the_estimate(limit, estimate, gas):
    node = AnsweringNode(hex(estimate))
    account = ChainAccount(node, contracts_of_version("2.0.0"), AddressOnlyWallet())

    assert account.gas([[ClaimJobs(limit=limit)]], available_gas=AVAILABLE_GAS) == (gas,)


@pytest.mark.parametrize(
    ("limit", "available_gas", "job_count"),
    # 100,000 gas are not enough for one job, but each claim is for at least one.
    [(50, 30_000_000, 50), (50, AVAILABLE_GAS, 29), (50, 100_000, 1)],
)
@pytest.mark.parametrize("estimate", [90_000, 1_600_000])
def test_claim_is_limited_to_the_available_gas(limit, available_gas, job_count, estimate):
    """A claim takes as many jobs as the available gas pays for. A later claim takes the rest."""
    node = RecordingNode(hex(estimate))
    contracts = contracts_of_version("2.0.0")
    account = ChainAccount(node, contracts, wallet_of(b"\x01" * 32))
    claim = [ClaimJobs(limit=limit)]
    (gas,) = account.gas([claim], available_gas=available_gas)
    signed_transaction = account.sign(
        claim, entry_ids=(1,), nonce=0, gas=gas, fees=TRANSACTION.fees
    )

    data = contracts.meta_scheduler.claim_jobs(job_count).data
    ((_method, (estimated_call,)),) = node.requests
    assert estimated_call["data"] == data
    assert data.removeprefix("0x") in signed_transaction.raw
    assert gas <= available_gas
