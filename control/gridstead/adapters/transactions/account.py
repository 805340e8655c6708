# SPDX-License-Identifier: Apache-2.0
"""The write side of the grid's contracts, for one wallet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gridstead.adapters.chain.abi import artifact, reason, reverted
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.node import Node, Request, RpcError, unavailable
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.transactions.encode import Payload, encode, gas_of
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block
from gridstead.domain.transactions.calls import Call
from gridstead.domain.transactions.outbox import Fees, Receipt, Reply, Taken, Transaction
from gridstead.errors import ChainUnavailable, ConfigError, TransactionReverted

TRANSFER_GAS = 21_000
REQUEST_BYTES = 500_000  # of signed transactions in one request; some nodes refuse a megabyte
MESSAGE_LENGTH = 500  # characters of a node's error message that are retained
LEAST_TIP = 1_000_000  # wei per gas; some nodes refuse a lower tip

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
# Errors that are not about the transaction itself. Source: EIP-1474 for the code "limit exceeded".
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
        """The wallet's address, lower case."""
        return self._wallet.address

    def nonce(self, *, at_block: Block) -> int:
        """Return the wallet's next nonce at a block."""
        pin = {"blockHash": at_block.hash, "requireCanonical": True}
        return int(self._node.ask("eth_getTransactionCount", self.address, pin), 16)

    def fees(self) -> Fees:
        """Return the fees that a transaction should offer.

        The max fee is twice the base fee plus the tip, so it still covers the base fee after six
        full blocks.
        """
        block, tip = self._node.batch(
            [("eth_getBlockByNumber", ["latest", False]), ("eth_maxPriorityFeePerGas", [])]
        )
        for answer in (block, tip):
            if isinstance(answer, RpcError):
                raise unavailable(answer, "a request for the fees")
        tip_wei = max(LEAST_TIP, int(tip, 16))
        base_fee = int(block.get("baseFeePerGas", "0x0"), 16)
        return Fees(max_fee=2 * base_fee + tip_wei, tip=tip_wei)

    def receipts(self, hashes: Iterable[str]) -> dict[str, Receipt]:
        """Return the receipts of those transactions that are in a block, by hash."""
        requested = list(hashes)
        answers = self._node.batch(
            [("eth_getTransactionReceipt", [tx_hash]) for tx_hash in requested]
        )
        receipts: dict[str, Receipt] = {}
        for tx_hash, answer in zip(requested, answers, strict=True):
            if isinstance(answer, RpcError):
                raise unavailable(answer, "eth_getTransactionReceipt")
            if answer is not None and answer.get("blockNumber"):
                receipts[tx_hash] = self._receipt(answer)
        return receipts

    def gas(
        self, batches: Sequence[Sequence[Call]], *, room: int
    ) -> tuple[int | TransactionReverted, ...]:
        """Return the gas limit of each batch, or the error with which the contract would refuse it.

        The node estimates the batches that have no known bound, in one request.
        """
        known: dict[int, int] = {}
        payloads: dict[int, Payload] = {}
        for index, calls in enumerate(batches):
            if not calls:
                known[index] = TRANSFER_GAS
                continue
            payload = encode(calls, self._contracts, room=room)
            if payload.gas is None:
                payloads[index] = payload
            else:
                known[index] = payload.gas
        named = [(payload, type(batches[i][0]).__name__) for i, payload in payloads.items()]
        estimates = estimate_all(self._node, self.address, named)
        limits: dict[int, int | TransactionReverted] = dict(known)
        for (index, payload), gas in zip(payloads.items(), estimates, strict=True):
            if isinstance(gas, int):
                limits[index] = min(max(gas, payload.least_gas), room)
            else:
                limits[index] = gas
        return tuple(limits[index] for index in range(len(batches)))

    def sign(
        self, calls: Sequence[Call], *, entry_ids: tuple[int, ...], nonce: int, gas: int, fees: Fees
    ) -> Transaction:
        """Return a signed transaction; without calls, a transfer of 0 wei to the wallet itself."""
        payload = Payload(to=self.address, data="0x", gas=None)
        if calls:
            payload = encode(calls, self._contracts, room=gas)
        fields = to_fields(
            payload, chain_id=self._contracts.chain_id, nonce=nonce, gas=gas, fees=fees
        )
        signed = self._wallet.sign_transaction(fields)
        return Transaction(
            hash=signed.hash, nonce=nonce, raw=signed.raw, entry_ids=entry_ids, fees=fees
        )

    def gas_limit(self, *, at_block: Block) -> int:
        """Return the block's gas limit.

        Raises:
            ChainUnavailable: If the node does not answer, or the block is no longer in the chain.
        """
        block = self._node.ask("eth_getBlockByHash", at_block.hash, False)
        if block is None:
            raise ChainUnavailable(
                "could not read the chain", detail="the chain was reorganised meanwhile"
            )
        return int(block["gasLimit"], 16)

    def gas_of(self, call: Call) -> int:
        """Return the most gas that a call can add to a batch."""
        return gas_of(call)

    def send(self, transactions: Sequence[Transaction]) -> tuple[Reply, ...]:
        """Send transactions to the node and return its replies, in order.

        A request has at most ``REQUEST_BYTES`` of transactions, but at least one.
        """
        replies: list[Reply] = []
        page: list[str] = []
        for transaction in transactions:
            if page and sum(map(len, page)) + len(transaction.raw) > REQUEST_BYTES:
                replies += _send_raw_all(self._node, page)
                page = []
            page.append(transaction.raw)
        return (*replies, *_send_raw_all(self._node, page))

    def _receipt(self, answer: dict[str, Any]) -> Receipt:
        skipped: dict[JobId, str] = {}
        for log in answer["logs"]:
            if self._skipped is None or log["topics"][:1] != [self._skipped.topic]:
                continue
            if log["address"].lower() == self._contracts.meta_scheduler.address:
                fields = self._skipped.decode(log)
                name, arguments = reason(fields["reason"])
                job_id = self._contracts.job_id(int.from_bytes(fields["jobId"]))
                skipped[job_id] = f"{name}({', '.join(arguments)})"
        return Receipt(
            block=int(answer["blockNumber"], 16),
            block_hash=answer["blockHash"],
            succeeded=int(answer["status"], 16) == 1,
            skipped=skipped,
        )


def estimate(node: Node, sender: str, payload: Payload, name: str) -> int:
    """Return a gas limit: the node's estimate and a third more.

    Raises:
        TransactionReverted: If the contract would refuse the call at the newest block.
    """
    (gas,) = estimate_all(node, sender, [(payload, name)])
    if isinstance(gas, TransactionReverted):
        raise gas
    return gas


def estimate_all(
    node: Node, sender: str, payloads: Sequence[tuple[Payload, str]]
) -> list[int | TransactionReverted]:
    """Return for each payload a gas limit, or the error with which the contract would refuse it.

    Args:
        node: The chain.
        sender: The address that would send the transactions.
        payloads: Each with the name of its call, for the error.
    """
    requests: list[Request] = []
    for payload, _ in payloads:
        transaction = {"from": sender, "data": payload.data, "value": hex(payload.value)}
        if payload.to:
            transaction["to"] = payload.to
        requests.append(("eth_estimateGas", [transaction]))
    limits: list[int | TransactionReverted] = []
    for (_, name), answer in zip(payloads, node.batch(requests), strict=True):
        if not isinstance(answer, RpcError):
            limits.append(int(answer, 16) * 4 // 3)
        elif answer.is_revert:
            limits.append(reverted(name, answer))
        else:
            raise unavailable(answer, "eth_estimateGas")
    return limits


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
    """Send a signed transaction to the node and return how the node took it.

    Raises:
        ConfigError: If the sender cannot pay for it.
        ChainUnavailable: If the node does not answer, or refuses for a reason that we do not know.
    """
    (reply,) = _send_raw_all(node, [raw])
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


def _send_raw_all(node: Node, raws: Sequence[str]) -> list[Reply]:
    answers = node.batch([("eth_sendRawTransaction", [raw]) for raw in raws])
    return list(map(_to_reply, answers))


def _to_reply(answer: Any) -> Reply:  # noqa: ANN401
    if not isinstance(answer, RpcError):
        return Reply(taken=Taken.TAKEN)
    message = answer.message[:MESSAGE_LENGTH]
    if _has_any(answer, _KNOWN):
        return Reply(taken=Taken.TAKEN)
    if _has_any(answer, _STALE):
        return Reply(taken=Taken.STALE)
    if _has_any(answer, _UNDERPRICED):
        return Reply(taken=Taken.UNDERPRICED)
    if _has_any(answer, _POOR):
        return Reply(taken=Taken.POOR, words=message)
    if answer.code == _LATER_CODE or _has_any(answer, _LATER):
        return Reply(taken=Taken.LATER, words=message)
    return Reply(taken=Taken.REFUSED, words=message)


def _has_any(error: RpcError, fragments: Iterable[str]) -> bool:
    """Return whether the node's message has one of these fragments, in any case."""
    message = error.message.lower()
    return any(fragment in message for fragment in fragments)
