# SPDX-License-Identifier: Apache-2.0
"""The write side of the grid's contracts, for one wallet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gridstead.adapters.chain.abi import artifact, reason, reverted
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.encode import Payload, encode, gas_of
from gridstead.adapters.chain.node import Node, RpcError, unavailable
from gridstead.adapters.chain.wallet import Wallet
from gridstead.domain.calls import Call
from gridstead.domain.job import Block
from gridstead.domain.sending import Fees, Receipt, Reply, Taken, Transaction
from gridstead.errors import ChainUnavailable, ConfigError, TransactionReverted

TRANSFER_GAS = 21_000
REQUEST_BYTES = 500_000  # of transactions that are given to the node at once; some nodes take no more than a megabyte
WORDS = 500  # characters that are kept of a node's own words
LEAST_TIP = 1_000_000  # wei per gas: below, some nodes take no transaction

_KNOWN = (
    "already known",
    "already imported",
    "alreadyknown",
    "known transaction",
    "already exists",
)
_UNDERPRICED = (
    "underpriced",
    "fee too low",
    "feetoolow",
    "replacementnotallowed",
    "below configured minimum",
    "less than block base fee",
    "max fee per gas less than",
)
_POOR = ("insufficient funds", "insufficientfunds", "upfront cost exceeds")
_STALE = ("nonce too low", "oldnonce")
# What says nothing about the transaction itself. Source: EIP-1474 for the code "limit exceeded".
_LATER = (
    "too many requests",
    "rate limit",
    "pool is full",
    "timeout",
    "timed out",
    "nonce too high",
    "nonce gap",
    "noncegap",
    "too distant",
    "internal error",
)
_LATER_CODE = -32005


class ChainAccount:
    """Port Account."""

    def __init__(self, node: Node, contracts: Contracts, wallet: Wallet) -> None:
        self._node = node
        self._contracts = contracts
        self._wallet = wallet
        self._skipped = artifact("MetaScheduler").events.get("BatchElementSkipped")

    @property
    def address(self) -> str:
        """The wallet, lower case."""
        return self._wallet.address

    def nonce(self, *, at_block: Block) -> int:
        """Return the wallet's next nonce at a block."""
        pin = {"blockHash": at_block.hash, "requireCanonical": True}
        return int(self._node.ask("eth_getTransactionCount", self.address, pin), 16)

    def fees(self) -> Fees:
        """Return what a transaction should offer: twice the base fee, so that six full blocks do
        not outrun it.
        """
        block, tip = self._node.batch(
            [("eth_getBlockByNumber", ["latest", False]), ("eth_maxPriorityFeePerGas", [])]
        )
        for answer in (block, tip):
            if isinstance(answer, RpcError):
                raise unavailable(answer, "a question for the fees")
        offered = max(LEAST_TIP, int(tip, 16))
        return Fees(max_fee=2 * int(block.get("baseFeePerGas", "0x0"), 16) + offered, tip=offered)

    def receipts(self, hashes: Iterable[str]) -> dict[str, Receipt]:
        """Return the receipts of transactions that are in a block."""
        wanted = list(hashes)
        answers = self._node.batch([("eth_getTransactionReceipt", [one]) for one in wanted])
        found: dict[str, Receipt] = {}
        for one, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, RpcError):
                raise unavailable(answer, "eth_getTransactionReceipt")
            if answer is not None and answer.get("blockNumber"):
                found[one] = self._receipt(answer)
        return found

    def gas(
        self, batches: Sequence[Sequence[Call]], *, room: int
    ) -> tuple[int | TransactionReverted, ...]:
        """Return gas limits; the node is asked about what has no known bound, all at once."""
        payloads = [
            encode(calls, self._contracts, room=room) if calls else None for calls in batches
        ]
        known = [TRANSFER_GAS if payload is None else payload.gas for payload in payloads]
        unknown = [
            (payload, type(calls[0]).__name__)
            for payload, calls in zip(payloads, batches, strict=True)
            if payload is not None and payload.gas is None
        ]
        asked = estimate_all(self._node, self.address, unknown)
        limits = iter(
            min(max(gas, payload.least_gas), room) if isinstance(gas, int) else gas
            for gas, (payload, _) in zip(asked, unknown, strict=True)
        )
        return tuple(next(limits) if gas is None else gas for gas in known)

    def sign(
        self, calls: Sequence[Call], *, entry_ids: tuple[int, ...], nonce: int, gas: int, fees: Fees
    ) -> Transaction:
        """Return a signed transaction; without calls, a transfer of nothing to ourselves."""
        payload = (
            encode(calls, self._contracts, room=gas)
            if calls
            else Payload(to=self.address, data="0x", gas=None)
        )
        fields = to_fields(
            payload, chain_id=self._contracts.chain_id, nonce=nonce, gas=gas, fees=fees
        )
        signed = self._wallet.sign_transaction(fields)
        return Transaction(
            hash=signed.hash, nonce=nonce, raw=signed.raw, entry_ids=entry_ids, fees=fees
        )

    def gas_limit(self, *, at_block: Block) -> int:
        """Return how much gas that block could hold.

        Raises:
            ChainUnavailable: There was no answer, or the block is not in the chain any more.
        """
        block = self._node.ask("eth_getBlockByHash", at_block.hash, False)
        if block is None:
            raise ChainUnavailable(
                "could not read the chain", detail="it was reorganised meanwhile"
            )
        return int(block["gasLimit"], 16)

    def gas_of(self, call: Call) -> int:
        """Return what a call adds to a batch at most."""
        return gas_of(call)

    def send(self, transactions: Sequence[Transaction]) -> tuple[Reply, ...]:
        """Give transactions to the node, some at a time, so that no request is too large for it."""
        replies: list[Reply] = []
        page: list[str] = []
        for one in transactions:
            if page and sum(map(len, page)) + len(one.raw) > REQUEST_BYTES:
                replies += _give(self._node, page)
                page = []
            page.append(one.raw)
        return (*replies, *_give(self._node, page))

    def _receipt(self, answer: dict[str, Any]) -> Receipt:
        skipped: dict[int, str] = {}
        for log in answer["logs"]:
            if self._skipped is None or log["topics"][:1] != [self._skipped.topic]:
                continue
            if log["address"].lower() == self._contracts.meta_scheduler.address:
                fields = self._skipped.decode(log)
                name, arguments = reason(fields["reason"])
                skipped[int.from_bytes(fields["jobId"])] = f"{name}({', '.join(arguments)})"
        return Receipt(
            block=int(answer["blockNumber"], 16),
            block_hash=answer["blockHash"],
            succeeded=int(answer["status"], 16) == 1,
            skipped=skipped,
        )


def estimate(node: Node, sender: str, payload: Payload, name: str) -> int:
    """Return a gas limit with a third to spare, asked of the node.

    Raises:
        TransactionReverted: The contract would refuse the call as the chain stands.
    """
    (gas,) = estimate_all(node, sender, [(payload, name)])
    if isinstance(gas, TransactionReverted):
        raise gas
    return gas


def estimate_all(
    node: Node, sender: str, asked: Sequence[tuple[Payload, str]]
) -> list[int | TransactionReverted]:
    """Return for each payload, with its name, a gas limit or why the contract would refuse it as
    the chain stands.
    """
    requests = [
        {"from": sender, "data": payload.data, "value": hex(payload.value)}
        | ({"to": payload.to} if payload.to else {})
        for payload, _ in asked
    ]
    answers = node.batch([("eth_estimateGas", [one]) for one in requests])
    found: list[int | TransactionReverted] = []
    for (_, name), answer in zip(asked, answers, strict=True):
        if not isinstance(answer, RpcError):
            found.append(int(answer, 16) * 4 // 3)
        elif answer.is_revert:
            found.append(reverted(name, answer))
        else:
            raise unavailable(answer, "eth_estimateGas")
    return found


def to_fields(
    payload: Payload, *, chain_id: int, nonce: int, gas: int, fees: Fees
) -> dict[str, Any]:
    """Return the fields of a transaction of type 2."""
    fields: dict[str, Any] = {
        "type": 2,
        "chainId": chain_id,
        "nonce": nonce,
        "gas": gas,
        "maxFeePerGas": fees.max_fee,
        "maxPriorityFeePerGas": fees.tip,
        "value": payload.value,
        "data": payload.data,
    }
    if payload.to:
        fields["to"] = bytes.fromhex(payload.to.removeprefix("0x"))
    return fields


def send_raw(node: Node, raw: str, sender: str) -> Taken:
    """Give signed bytes to the node.

    Raises:
        ConfigError: The sender cannot pay for them.
        ChainUnavailable: There was no answer, or a refusal that we do not know.
    """
    (reply,) = _give(node, [raw])
    if reply.taken is Taken.POOR:
        hint = "Send coins of the chain to the wallet."
        raise ConfigError(
            f"cannot pay for transactions of {sender}", detail=f'"{reply.words}"', hint=hint
        )
    if reply.taken in {Taken.REFUSED, Taken.LATER}:
        raise ChainUnavailable(
            "could not send a transaction", detail=f'the node refused it: "{reply.words}"'
        )
    return reply.taken


def _give(node: Node, raws: Sequence[str]) -> list[Reply]:
    return [
        _reply(answer) for answer in node.batch([("eth_sendRawTransaction", [raw]) for raw in raws])
    ]


def _reply(answer: Any) -> Reply:  # noqa: ANN401
    if not isinstance(answer, RpcError):
        return Reply(taken=Taken.TAKEN)
    words, told = answer.message.lower(), answer.message[:WORDS]
    if any(text in words for text in _KNOWN):
        return Reply(taken=Taken.TAKEN)
    if any(text in words for text in _STALE):
        return Reply(taken=Taken.STALE)
    if any(text in words for text in _UNDERPRICED):
        return Reply(taken=Taken.UNDERPRICED)
    if any(text in words for text in _POOR):
        return Reply(taken=Taken.POOR, words=told)
    if answer.code == _LATER_CODE or any(text in words for text in _LATER):
        return Reply(taken=Taken.LATER, words=told)
    return Reply(taken=Taken.REFUSED, words=told)
