# SPDX-License-Identifier: Apache-2.0
"""The values of a wallet's outbox.

The values are the calls, the signed transactions that contain the calls, and the answers of the
node and the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.transactions.calls import Call


class SendState(Enum):
    """The progress of an outbox entry."""

    QUEUED = "queued"  # stored, not in a transaction
    SENT = "sent"  # in a signed transaction that is stored and was sent to the node
    MINED = "mined"  # in a block that a reorg may still remove
    FINAL = "final"  # in a block with enough confirmations
    # refused, or no longer valid. A transaction that carries the call may still be mined.
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A call that the sender must make.

    Attributes:
        id: The id. Ids increase in the order in which entries are stored.
        key: The purpose of the call. At most one open entry has this key.
        call: The call.
        state: The progress of the call. An entry is open while it is QUEUED, SENT or MINED.
        created_at: Unix seconds.
        reason: Why the call was rejected. Empty if the call was not rejected.
    """

    id: int
    key: str
    call: Call
    state: SendState
    created_at: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fees:
    """The max fee and the tip of a transaction. Units: wei of the chain's own coin per gas."""

    max_fee: int
    tip: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A signed transaction of our wallet.

    Several transactions may share a nonce. The chain mines at most one of them.

    Attributes:
        hash: 0x and 64 hexadecimal digits.
        nonce: The nonce of the wallet.
        raw: The signed bytes, 0x and hexadecimal digits.
        entry_ids: The outbox entries whose calls the transaction carries, in the order of the
            batch. Empty if the transaction only fills a gap.
        fees: The fees that the transaction offers.
        sent_at: When the node first accepted the transaction, Unix seconds. None if the transaction
            may never have been sent.
        withdrawn: Whether the transaction must never be sent again. A withdrawn transaction may
            still be mined.
    """

    hash: str
    nonce: int
    raw: str
    entry_ids: tuple[int, ...]
    fees: Fees
    sent_at: int | None = None
    withdrawn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The receipt of a mined transaction.

    Attributes:
        block: The height of the transaction's block.
        block_hash: The hash of the transaction's block. After a reorg, another block may have the
            same height.
        succeeded: False if the whole transaction was reverted. True even if the contract skipped
            calls.
        skipped: Why the contract skipped calls of the batch, by job id.
    """

    block: int
    block_hash: str
    succeeded: bool
    skipped: Mapping[JobId, str] = field(default_factory=dict)


class SendResult(Enum):
    """How a node answers a signed transaction."""

    ACCEPTED = "accepted"  # the node has the transaction, which may be new or known to it
    UNDERPRICED = "underpriced"  # fees too low, or the pool has another transaction of this nonce
    NONCE_USED = "nonce used"  # a mined transaction has already used the nonce
    RETRY_LATER = "retry later"  # the node is busy or its pool is full
    # The wallet's balance does not pay for this transaction and the pending ones before it.
    CANNOT_PAY = "cannot pay"
    REFUSED = "refused"  # the node refuses the transaction for another reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of a node to a signed transaction.

    Attributes:
        result: How the node answered the transaction.
        message: The node's error message. Empty if the result needs none.
    """

    result: SendResult
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRefusal:
    """The refusal of a transaction by a node.

    Attributes:
        call_count: The number of calls in the transaction.
        message: The node's error message.
    """

    call_count: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """The new state of an outbox entry.

    Attributes:
        entry_id: The id of the entry.
        state: The new state.
        reason: Why the call is rejected. Empty if it is not rejected.
        is_skipped: Whether the contract skipped the call in a final transaction of our wallet. The
            reason is then the contract's error.
    """

    entry_id: int
    state: SendState
    reason: str = ""
    is_skipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedCall:
    """A call that the contract skipped in a final transaction of our wallet.

    Attributes:
        call: The call.
        error: The contract's error with its arguments, such as ``PriceAboveLimit(20, 10)``.
        requested_at: When the call was stored in the outbox, Unix seconds.
        seen_at: When the sender found the final receipt of the transaction, Unix seconds.
    """

    call: Call
    error: str
    requested_at: int
    seen_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingStatus:
    """A pending transaction that this process sent to the node. Times: Unix seconds.

    Attributes:
        waiting_since: The start of the waiting time, usually when the transaction was first sent.
            It is moved forward by the time in which the chain mined no block.
        last_sent_at: When the transaction was sent for the last time. 0 to send it at once.
        underpriced: Whether the node answered that the fees are too low.
        refused: Whether the node refused the transaction.
    """

    waiting_since: int
    last_sent_at: int
    underpriced: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainView:
    """The snapshot of chain and outbox on which the sender decides.

    Attributes:
        now: Unix seconds.
        head: Height of the newest block. The values of the chain are as of this block.
        certain_nonce: The wallet's next nonce that is certain from final blocks and receipts. If a
            transaction has a lower nonce and is in no block, it will never be mined.
        nonce_at_head: The wallet's next nonce at the newest block. It is higher than
            ``certain_nonce`` if another program with the same wallet has used nonces in the newest
            blocks.
        entries: Open outbox entries, oldest first.
        transactions: The transactions of open nonces, sorted by nonce and then by age.
        receipts: The receipts of mined transactions, by hash.
        objections: Why a call that is not mined must not be made any more, by entry id.
        statuses: The status of each pending transaction that this process sent, by hash.
        fees: The fees that a new transaction should offer.
        gas_limit: The gas limit of the newest block.
        max_gas: The maximum gas that a call adds to a batch, by entry id. 0 if the call is never
            in a batch with others.
        refusals: By entry id, the last refusal of a transaction that contained the entry's call.
            Only refusals since the start of this process.
        sendable_ids: Ids of the entries whose calls may be sent to the node now. None if the
            objections have not been checked yet.
    """

    now: int
    head: int
    certain_nonce: int
    nonce_at_head: int
    entries: tuple[OutboxEntry, ...]
    transactions: tuple[Transaction, ...]
    receipts: Mapping[str, Receipt]
    objections: Mapping[int, str]
    statuses: Mapping[str, PendingStatus]
    fees: Fees
    gas_limit: int
    max_gas: Mapping[int, int]
    refusals: Mapping[int, NodeRefusal]
    sendable_ids: frozenset[int] | None = None

    @property
    def first_free_nonce(self) -> int:
        """The lowest nonce that no mined transaction uses."""
        return max(self.certain_nonce, self.nonce_at_head)

    def may_send(self, entry_ids: Iterable[int]) -> bool:
        """Return whether these calls may be sent to the node.

        If the objections have not been checked yet, every call may be sent.
        """
        return self.sendable_ids is None or self.sendable_ids.issuperset(entry_ids)
