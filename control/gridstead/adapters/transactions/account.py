# SPDX-License-Identifier: Apache-2.0
"""Signs transactions of one wallet, estimates their gas, and sends them to a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gridstead.adapters.chain.abi import artifact, reason, reverted
from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.node import Node, Request, RpcError, unavailable
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.transactions.encode import encode, gas_of
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block
from gridstead.domain.transactions.calls import Call
from gridstead.domain.transactions.fees import new_fees
from gridstead.domain.transactions.outbox import Fees, Receipt, Reply, SendResult, Transaction
from gridstead.errors import ChainUnavailable, ConfigError, TransactionReverted

TRANSFER_GAS = 21_000
# Maximum number of characters of the signed transactions in one request. Some nodes refuse a
# megabyte.
MAX_REQUEST_LENGTH = 500_000
MAX_MESSAGE_LENGTH = 500  # characters; longer error messages of a node are truncated

# The texts below are parts of error messages of geth, Nethermind, Besu and other nodes. They are in
# lower case.
_ACCEPTED_MESSAGES = (
    "already known",
    "already imported",
    "alreadyknown",
    "known transaction",
    "already exists",
)
_UNDERPRICED_MESSAGES = (
    "underpriced",
    "fee too low",
    "feetoolow",
    "replacementnotallowed",
    "below configured minimum",
    "less than block base fee",
    "max fee per gas less than",
)
_CANNOT_PAY_MESSAGES = ("insufficient funds", "insufficientfunds", "upfront cost exceeds")
_NONCE_USED_MESSAGES = ("nonce too low", "oldnonce")
# Parts of the messages of errors that do not depend on the transaction itself.
_RETRY_LATER_MESSAGES = (
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
LIMIT_EXCEEDED_CODE = -32005  # EIP-1474: limit exceeded
METHOD_NOT_FOUND_CODE = -32601


class ChainAccount:
    """Implements port ``Account`` with a node and the wallet's key.

    Args:
        node: A node of the chain.
        contracts: The contracts of the grid.
        wallet: Signs the transactions.
    """

    def __init__(self, node: Node, contracts: Contracts, wallet: Wallet) -> None:
        self._node = node
        self._contracts = contracts
        self._wallet = wallet
        self._skip_event = artifact("MetaScheduler").events.get("BatchElementSkipped")

    @property
    def address(self) -> str:
        """The wallet's address, lower case."""
        return self._wallet.address

    def nonce(self, *, at_block: Block) -> int:
        """Return the wallet's next nonce at a block."""
        pin = {"blockHash": at_block.hash, "requireCanonical": True}
        return int(self._node.ask("eth_getTransactionCount", self.address, pin), 16)

    def fees(self) -> Fees:
        """Return the fees that a new transaction should offer."""
        return read_fees(self._node)

    def receipts(self, hashes: Iterable[str]) -> dict[str, Receipt]:
        """Return the receipt of each transaction that is in a block, by the transaction's hash."""
        requested_hashes = list(hashes)
        answers = self._node.batch(
            [("eth_getTransactionReceipt", [tx_hash]) for tx_hash in requested_hashes]
        )
        receipts: dict[str, Receipt] = {}
        for tx_hash, answer in zip(requested_hashes, answers, strict=True):
            if isinstance(answer, RpcError):
                raise unavailable(answer, "eth_getTransactionReceipt")
            if answer is not None and answer.get("blockNumber"):
                receipts[tx_hash] = self._receipt(answer)
        return receipts

    def gas(
        self, batches: Sequence[Sequence[Call]], *, available_gas: int
    ) -> tuple[int | TransactionReverted, ...]:
        """Return each batch's gas limit, or the error with which the contract would refuse it.

        One request to the node estimates the gas of all batches whose payload has no gas limit.
        """
        # The result of each batch, by its index: a gas limit or an error.
        limits: dict[int, int | TransactionReverted] = {}
        # The indexes and payloads of the batches whose gas the node estimates.
        indexes: list[int] = []
        named_payloads: list[tuple[Payload, str]] = []
        for index, calls in enumerate(batches):
            if not calls:
                limits[index] = TRANSFER_GAS
                continue
            payload = encode(calls, self._contracts, available_gas=available_gas)
            if payload.gas is not None:
                limits[index] = payload.gas
                continue
            indexes.append(index)
            named_payloads.append((payload, type(calls[0]).__name__))
        estimates = estimate_all(self._node, self.address, named_payloads)
        for index, (payload, _), gas in zip(indexes, named_payloads, estimates, strict=True):
            if isinstance(gas, TransactionReverted):
                limits[index] = gas
            else:
                limits[index] = min(max(gas, payload.min_gas), available_gas)
        return tuple(limits[index] for index in range(len(batches)))

    def sign(
        self, calls: Sequence[Call], *, entry_ids: tuple[int, ...], nonce: int, gas: int, fees: Fees
    ) -> Transaction:
        """Return a signed transaction; without calls, a transfer of 0 wei to the wallet itself."""
        payload = Payload(to=self.address, data="0x", gas=None)
        if calls:
            payload = encode(calls, self._contracts, available_gas=gas)
        fields = to_fields(
            payload, chain_id=self._contracts.chain_id, nonce=nonce, gas=gas, fees=fees
        )
        signed_transaction = self._wallet.sign_transaction(fields)
        return Transaction(
            hash=signed_transaction.hash,
            nonce=nonce,
            raw=signed_transaction.raw,
            entry_ids=entry_ids,
            fees=fees,
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
        """Return the maximum gas that a call adds to a batch."""
        return gas_of(call)

    def send(self, transactions: Sequence[Transaction]) -> tuple[Reply, ...]:
        """Send transactions to the node and return the node's replies, in order.

        Each request carries as many transactions as fit into ``MAX_REQUEST_LENGTH``, at least one.
        """
        replies: list[Reply] = []
        page: list[str] = []
        for transaction in transactions:
            if page and sum(map(len, page)) + len(transaction.raw) > MAX_REQUEST_LENGTH:
                replies += _send_raw_all(self._node, page)
                page = []
            page.append(transaction.raw)
        return (*replies, *_send_raw_all(self._node, page))

    def _receipt(self, answer: dict[str, Any]) -> Receipt:
        skipped_jobs: dict[JobId, str] = {}
        for log in answer["logs"]:
            if self._skip_event is None or log["topics"][:1] != [self._skip_event.topic]:
                continue
            if log["address"].lower() == self._contracts.meta_scheduler.address:
                fields = self._skip_event.decode(log)
                name, arguments = reason(fields["reason"])
                job_id = self._contracts.job_id(int.from_bytes(fields["jobId"]))
                skipped_jobs[job_id] = f"{name}({', '.join(arguments)})"
        return Receipt(
            block=int(answer["blockNumber"], 16),
            block_hash=answer["blockHash"],
            succeeded=int(answer["status"], 16) == 1,
            skipped=skipped_jobs,
        )


def read_fees(node: Node) -> Fees:
    """Return the fees that a new transaction should offer.

    Raises:
        ChainUnavailable: If the node does not answer, or answers with an error. A node need not be
            able to suggest a tip.
    """
    block, tip = node.batch(
        [("eth_getBlockByNumber", ["latest", False]), ("eth_maxPriorityFeePerGas", [])]
    )
    if isinstance(tip, RpcError) and tip.code == METHOD_NOT_FOUND_CODE:
        tip = "0x0"
    for answer in (block, tip):
        if isinstance(answer, RpcError):
            raise unavailable(answer, "a request for the fees")
    return new_fees(int(block.get("baseFeePerGas", "0x0"), 16), int(tip, 16))


def estimate(node: Node, sender: str, payload: Payload, name: str) -> int:
    """Return a gas limit: the node's estimate plus a third.

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
    """Return a gas limit for each payload, or the error with which the contract would refuse it.

    Args:
        node: A node of the chain.
        sender: The address that would send the transactions.
        payloads: Pairs of a payload and the name of its call, which error messages contain.

    Raises:
        ChainUnavailable: If the node answers with an error that is not a revert.
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
    """Return the fields of a transaction of type 2 (EIP-1559)."""
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


def send_raw(node: Node, raw: str, sender: str) -> SendResult:
    """Send a signed transaction to the node.

    Returns:
        ACCEPTED, UNDERPRICED or NONCE_USED.

    Raises:
        ConfigError: If the sender cannot pay for the transaction.
        ChainUnavailable: If the node does not answer, is busy, or refuses the transaction for
            another reason.
    """
    (reply,) = _send_raw_all(node, [raw])
    if reply.result is SendResult.CANNOT_PAY:
        hint = "Send coins of the chain to the wallet."
        raise ConfigError(
            f"cannot pay for transactions of {sender}", detail=f'"{reply.message}"', hint=hint
        )
    if reply.result in {SendResult.REFUSED, SendResult.RETRY_LATER}:
        raise ChainUnavailable(
            "could not send a transaction", detail=f'the node refused it: "{reply.message}"'
        )
    return reply.result


def _send_raw_all(node: Node, raws: Sequence[str]) -> list[Reply]:
    answers = node.batch([("eth_sendRawTransaction", [raw]) for raw in raws])
    return list(map(_to_reply, answers))


def _to_reply(answer: Any) -> Reply:  # noqa: ANN401
    if not isinstance(answer, RpcError):
        return Reply(result=SendResult.ACCEPTED)
    message = answer.message[:MAX_MESSAGE_LENGTH]
    if _has_any(answer, _ACCEPTED_MESSAGES):
        return Reply(result=SendResult.ACCEPTED)
    if _has_any(answer, _NONCE_USED_MESSAGES):
        return Reply(result=SendResult.NONCE_USED)
    if _has_any(answer, _UNDERPRICED_MESSAGES):
        return Reply(result=SendResult.UNDERPRICED)
    if _has_any(answer, _CANNOT_PAY_MESSAGES):
        return Reply(result=SendResult.CANNOT_PAY, message=message)
    if answer.code == LIMIT_EXCEEDED_CODE or _has_any(answer, _RETRY_LATER_MESSAGES):
        return Reply(result=SendResult.RETRY_LATER, message=message)
    return Reply(result=SendResult.REFUSED, message=message)


def _has_any(error: RpcError, fragments: Iterable[str]) -> bool:
    """Return whether the node's message contains one of these texts. Case is ignored."""
    message = error.message.lower()
    return any(fragment in message for fragment in fragments)
