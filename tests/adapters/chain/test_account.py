# SPDX-License-Identifier: Apache-2.0
"""The interpretation of a node's answer to a signed transaction."""

from __future__ import annotations

import pytest
from tests.adapters.chain.test_encode import grid

from gridstead.adapters.chain.node import RpcError
from gridstead.adapters.chain.wallet import wallet_of
from gridstead.adapters.transactions import account as account_module
from gridstead.adapters.transactions.account import ChainAccount, estimate, send_raw
from gridstead.adapters.transactions.encode import Payload
from gridstead.domain.transactions.calls import ClaimJobs
from gridstead.domain.transactions.outbox import Fees, Reply, Taken, Transaction
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


class Key:
    """A wallet that has only an address."""

    address = WALLET


class RecordingNode(AnsweringNode):
    """A node that records the requests."""

    requests = ()

    def batch(self, requests):
        self.requests = (*self.requests, *requests)
        return super().batch(requests)


def refusing(message, *, code=-32000):
    return AnsweringNode(RpcError(code=code, message=message, data=""))


def send(node):
    return ChainAccount(node, contracts=None, wallet=Key()).send([TRANSACTION])[0]


@pytest.mark.parametrize(
    ("message", "taken"),
    [
        ("already known", Taken.TAKEN),
        ("nonce too low: next nonce 5", Taken.STALE),
        ("replacement transaction underpriced", Taken.UNDERPRICED),
    ],
)
def test_known_error_messages_are_classified(message, taken):
    assert send(refusing(message)) == Reply(taken=taken)
    assert send_raw(refusing(message), "0x02", WALLET) is taken


@pytest.mark.parametrize("message", ["exceeds block gas limit", "oversized data", "something new"])
def test_unknown_error_message_refuses_the_transaction(message):
    assert send(refusing(message)) == Reply(taken=Taken.REFUSED, words=message)
    with pytest.raises(ChainUnavailable, match=message):
        send_raw(refusing(message), "0x02", WALLET)


@pytest.mark.parametrize(
    ("message", "code"),
    [("Too Many Requests", 429), ("daily limit", -32005), ("txpool is full", -32000)],
)
def test_overload_of_the_node_is_retried_later(message, code):
    assert send(refusing(message, code=code)) == Reply(taken=Taken.LATER, words=message)
    with pytest.raises(ChainUnavailable, match=message):
        send_raw(refusing(message, code=code), "0x02", WALLET)


def test_wallet_without_coins_is_a_config_error():
    message = "insufficient funds for gas * price + value"

    assert send(refusing(message)) == Reply(taken=Taken.POOR, words=message)
    with pytest.raises(ConfigError, match="cannot pay"):
        send_raw(refusing(message), "0x02", WALLET)


def test_call_above_the_block_gas_limit_reverts_in_simulation():
    payload = Payload(to=WALLET, data="0x", gas=None)

    with pytest.raises(TransactionReverted):
        estimate(
            refusing("gas required exceeds allowance (30000000)"), WALLET, payload, "ClaimJobs"
        )


@pytest.mark.parametrize(
    ("message", "taken"),
    [
        ("FeeTooLow, MaxFeePerGas too low", Taken.UNDERPRICED),
        ("FeeTooLowToCompete", Taken.UNDERPRICED),
        ("ReplacementNotAllowed", Taken.UNDERPRICED),
        ("Gas price below configured minimum gas price", Taken.UNDERPRICED),
        ("InsufficientFunds, Account balance: 0", Taken.POOR),
        ("Upfront cost exceeds account balance", Taken.POOR),
        ("OldNonce, Current nonce: 5", Taken.STALE),
        ("NonceGap", Taken.LATER),
        ("Transaction nonce is too distant from current sender nonce", Taken.LATER),
        ("Internal error", Taken.LATER),
    ],
)
def test_error_messages_of_other_nodes_are_classified(message, taken):
    assert account_module._to_reply(RpcError(code=-32010, message=message, data="")).taken is taken


ROOM = 2_000_000


@pytest.mark.parametrize(
    ("limit", "estimate", "gas"),
    [(10, 90_000, 810_000), (50, 90_000, 1_950_000), (1, 300_000, 400_000), (50, 1_600_000, ROOM)],
)
def test_claim_has_gas_for_jobs_that_are_matched_later(limit, estimate, gas):
    account = ChainAccount(AnsweringNode(hex(estimate)), grid("2.0.0"), Key())

    assert account.gas([[ClaimJobs(limit=limit)]], room=ROOM) == (gas,)


@pytest.mark.parametrize(
    ("limit", "room", "jobs"), [(50, 30_000_000, 50), (50, ROOM, 29), (50, 100_000, 1)]
)
@pytest.mark.parametrize("estimate", [90_000, 1_600_000])
def test_claim_is_limited_to_the_available_gas(limit, room, jobs, estimate):
    """A larger claim would be refused forever; the other jobs are claimed in a later block."""
    node, wallet = RecordingNode(hex(estimate)), wallet_of(b"\x01" * 32)
    account, claim = ChainAccount(node, grid("2.0.0"), wallet), [ClaimJobs(limit=limit)]
    (gas,) = account.gas([claim], room=room)
    signed = account.sign(claim, entry_ids=(1,), nonce=0, gas=gas, fees=TRANSACTION.fees)

    data = grid("2.0.0").meta_scheduler.claim_jobs(jobs).data
    ((_, (call,)),) = node.requests
    assert call["data"] == data
    assert data.removeprefix("0x") in signed.raw
    assert gas <= room
