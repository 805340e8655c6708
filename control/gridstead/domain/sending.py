# SPDX-License-Identifier: Apache-2.0
"""The outbox of a wallet, as values: calls, the signed transactions that carry them, and how the
chain answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from gridstead.domain.calls import Call


class SendState(Enum):
    """Where a call is on its way to the chain."""

    QUEUED = "queued"  # stored, in no transaction yet
    SENT = "sent"  # in a signed transaction that is stored and was given to the node
    MINED = "mined"  # in a block that may still be reorganised away
    FINAL = "final"  # in a block with enough confirmations
    REJECTED = (
        "rejected"  # refused or meanwhile wrong; a transaction of it that was sent may be mined yet
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A call that must be made.

    Attributes:
        id: Grows with every entry.
        key: What it is about; at most one open entry has it.
        call: The call.
        state: Where it is. Open means QUEUED, SENT or MINED.
        created_at: Unix seconds.
        reason: Why it was rejected; empty otherwise.
    """

    id: int
    key: str
    call: Call
    state: SendState
    created_at: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fees:
    """What a transaction offers. Units: wei of the chain's own coin per gas."""

    max_fee: int
    tip: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A signed transaction of our wallet. Several may share a nonce; the chain takes one of them.

    Attributes:
        hash: 0x and 64 hexadecimal digits.
        nonce: Its place among the wallet's transactions.
        raw: The signed bytes, 0x and hexadecimal digits.
        entry_ids: The outbox entries it carries, in the order of the batch; empty if it only uses
            up its nonce.
        fees: What it offers.
        sent_at: When the node first took it, Unix seconds; None if it may never have been sent.
        withdrawn: Must never be sent again. It may still be mined.
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
    """A transaction is in a block.

    Attributes:
        block: The block's height.
        block_hash: The block's hash; another block of that height has not got the transaction.
        succeeded: It was not reverted as a whole.
        skipped: By job number, why the contract refused this element of a batch.
    """

    block: int
    block_hash: str
    succeeded: bool
    skipped: Mapping[int, str] = field(default_factory=dict)


class Taken(Enum):
    """What a node says to a signed transaction."""

    TAKEN = "taken"  # it has it, now or since before
    UNDERPRICED = "underpriced"  # it holds another one of this nonce, or wants a higher fee
    STALE = "stale"  # the nonce is used up
    LATER = "later"  # it has no room for it now, or no time
    POOR = "poor"  # the wallet cannot pay for it and all that waits before it
    REFUSED = "refused"  # it will not have it, for a reason of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A node's answer to a signed transaction, and its words where it did not take it."""

    taken: Taken
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A call was in a transaction that a node refused: how many calls it had, and the node's words."""

    calls: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """An outbox entry has come to a state."""

    entry_id: int
    state: SendState
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """When this process gave a transaction to the node: first and last time since it was in no
    block. Unix seconds.

    ``since`` is moved on by the time in which no block came.
    """

    since: int
    last: int
    underpriced: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainView:
    """What one decision is made of.

    Attributes:
        now: Unix seconds.
        head: Height of the newest block; the chain below is as of this block.
        nonce: The wallet's next nonce, as far as it is certain; below it, what is in no block never
            will be.
        reached: Its next nonce by the newest block, where others may have used some.
        entries: Open outbox entries, oldest first.
        transactions: Those of open nonces, by nonce and then age.
        receipts: By hash, of those transactions that are in a block.
        objections: By entry id, why a call that is not mined must not be made any more.
        cleared: Entries that may be given to the node now; None if that has not been looked up yet.
        waiting: By hash, what this process remembers of sending.
        fees: What a transaction should offer now.
        gas_limit: Of the newest block.
        gas: By entry id, what the call adds to a batch at most; 0 if it is never in one with
            others.
        refusals: By entry id, the last refusal of a transaction with it that this process saw.
    """

    now: int
    head: int
    nonce: int
    reached: int
    entries: tuple[OutboxEntry, ...]
    transactions: tuple[Transaction, ...]
    receipts: Mapping[str, Receipt]
    objections: Mapping[int, str]
    waiting: Mapping[str, Waiting]
    fees: Fees
    gas_limit: int
    gas: Mapping[int, int]
    refusals: Mapping[int, Refusal]
    cleared: frozenset[int] | None = None

    @property
    def first(self) -> int:
        """The lowest nonce that nobody is known to have used."""
        return max(self.nonce, self.reached)

    def are_cleared(self, entry_ids: Iterable[int]) -> bool:
        """Return whether nothing is known that speaks against giving these calls to the node."""
        return self.cleared is None or self.cleared.issuperset(entry_ids)
