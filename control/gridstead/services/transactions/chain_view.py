# SPDX-License-Identifier: Apache-2.0
"""Reads the sender's view of the chain, once per tick.

Rule 1: a view holds nothing that is newer than its newest block or belongs to another fork. Rule 2:
an irreversible decision uses the block below the newest one. Some nodes answer for their newest
block while they already write the next block to the same state, so a call may seem to be executed
before its transaction is in a block. Rule 3: a value that was read stays valid until a reorg, which
shows in the hash of the last block that was read. Rule 4: an endpoint may have several servers, and
some of them may lag or be on another fork. A missing receipt is evidence only if the nonce was used
long ago. A receipt is evidence only while its block is part of the chain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block
from gridstead.domain.transactions.calls import Call, subject
from gridstead.domain.transactions.dispatch import TransactionPlan
from gridstead.domain.transactions.objection import objection
from gridstead.domain.transactions.outbox import (
    ChainView,
    OutboxEntry,
    Receipt,
    Refusal,
    Transaction,
    Waiting,
)
from gridstead.errors import ChainUnavailable
from gridstead.ports import Account, Clock, Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSnapshot:
    """The content of a wallet's outbox, and what its sender remembers about sending it.

    Attributes:
        entries: Open entries, oldest first.
        transactions: Transactions of open nonces, by nonce, then by age.
        waiting: By hash, when a transaction was given to the node.
        refusals: By entry id, the last refusal of a transaction with the entry.
    """

    entries: tuple[OutboxEntry, ...]
    transactions: tuple[Transaction, ...]
    waiting: Mapping[str, Waiting]
    refusals: Mapping[int, Refusal]


class ChainViewReader:
    """Reads the chain for one wallet.

    Args:
        clock: Wall time.
        ledger: The chain.
        account: The wallet.
        confirmations: If a used nonce has no receipt after this many blocks, another program used
            it. A receipt that has this many blocks on top is checked once more.
    """

    def __init__(
        self, clock: Clock, ledger: Ledger, account: Account, *, confirmations: int
    ) -> None:
        self._confirmations = confirmations
        self._clock = clock
        self._ledger = ledger
        self._account = account
        self._receipts: dict[str, Receipt] = {}
        # The newest block of the last complete read, and the block below it.
        self._last_read: tuple[Block, Block] | None = None
        self._is_reorganised = True

    def read(self, snapshot: OutboxSnapshot) -> ChainView:
        """Return a view without objections.

        Raises:
            ChainUnavailable: If the chain did not answer, or was reorganised during the read.
        """
        account, last_read = self._account, self._last_read
        head = self._ledger.head()
        below = self._block(head.number - 1) if head.number else head
        self._is_reorganised = last_read is None or not self._is_current(last_read[0], head, below)
        self._last_read = None  # until this read is complete
        reached = account.nonce(at_block=head)
        receipts = self._read_receipts(snapshot.transactions, head, reached)
        deep = below
        if self._confirmations > 1:
            deep = self._block(max(0, head.number - self._confirmations))
        nonce = _certain_nonce(account.nonce(at_block=deep), snapshot.transactions, receipts)
        gas_limit, fees = account.gas_limit(at_block=head), account.fees()
        self._check_unchanged(head)
        self._last_read, self._receipts = (head, below), receipts
        return ChainView(
            now=self._clock.now(),
            head=head.number,
            nonce=nonce,
            nonce_at_head=reached,
            entries=snapshot.entries,
            transactions=snapshot.transactions,
            receipts=receipts,
            objections={},
            waiting=snapshot.waiting,
            fees=fees,
            gas_limit=gas_limit,
            gas={entry.id: account.gas_of(entry.call) for entry in snapshot.entries},
            refusals=snapshot.refusals,
        )

    def check(self, view: ChainView, plan: TransactionPlan) -> ChainView:
        """Return the view with the objections to the calls that a plan would give to the node.

        After a reorg, and in the first tick of a process, the calls of all waiting transactions are
        checked too.

        Raises:
            ChainUnavailable: If the chain did not answer, or was reorganised during the read.
        """
        entry_ids = set(plan.entry_ids_to_send)
        if self._is_reorganised:
            entry_ids |= _waiting_entries(view)
        if not entry_ids or self._last_read is None:
            return replace(view, cleared=frozenset())
        head, below = self._last_read
        calls = {entry.id: entry.call for entry in view.entries if entry.id in entry_ids}
        doubts = self._objections(calls, head)
        confirmed = self._objections({entry_id: calls[entry_id] for entry_id in doubts}, below)
        self._check_unchanged(head)
        objections = {entry_id: doubts[entry_id] for entry_id in confirmed}
        return replace(view, objections=objections, cleared=frozenset(entry_ids - doubts.keys()))

    def _read_receipts(
        self, transactions: Collection[Transaction], head: Block, reached: int
    ) -> dict[str, Receipt]:
        """Return the receipts of mined transactions; only unknown receipts are requested."""
        known = {} if self._is_reorganised else self._receipts
        receipts: dict[str, Receipt] = {}
        doubtful: dict[str, Receipt] = {}
        unknown: list[str] = []
        for transaction in transactions:
            tx = transaction.hash
            if tx in known:
                receipts[tx] = known[tx]
                if head.number - known[tx].block >= self._confirmations:
                    doubtful[tx] = known[tx]
            elif transaction.nonce < reached:
                unknown.append(tx)
        if unknown:
            new = dict(self._account.receipts(unknown))
            receipts |= new
            doubtful |= new
        wrong = self._wrong_receipts(doubtful, head)
        return {tx: receipt for tx, receipt in receipts.items() if tx not in wrong}

    def _wrong_receipts(self, receipts: Mapping[str, Receipt], head: Block) -> set[str]:
        """Return the hashes of the receipts whose block is not part of the chain."""
        hashes: dict[int, str] = {}
        for number in {receipt.block for receipt in receipts.values()}:
            if number <= head.number:
                hashes[number] = self._block(number).hash
        wrong: set[str] = set()
        for tx, receipt in receipts.items():
            if hashes.get(receipt.block) != receipt.block_hash:
                wrong.add(tx)
        return wrong

    def _objections(self, calls: Mapping[int, Call], at_block: Block) -> dict[int, str]:
        """Return, by entry id, why a call must not be made according to a block."""
        job_ids: dict[int, JobId] = {}
        for entry_id, call in calls.items():
            job_key = subject(call)
            if job_key is not None:
                job_ids[entry_id] = job_key.job_id
        if not job_ids:
            return {}
        jobs = self._ledger.jobs(job_ids.values(), at_block=at_block)
        objections: dict[int, str] = {}
        for entry_id, job_id in job_ids.items():
            reason = objection(calls[entry_id], jobs.get(job_id), wallet=self._account.address)
            if reason:
                objections[entry_id] = reason
        return objections

    def _is_current(self, block: Block, head: Block, below: Block) -> bool:
        """Return whether a block is still part of the chain."""
        if block.number > head.number:
            return False
        for known in (head, below):
            if known.number == block.number:
                return known.hash == block.hash
        return self._block(block.number).hash == block.hash

    def _check_unchanged(self, head: Block) -> None:
        if self._block(head.number).hash != head.hash:
            raise _reorganised()

    def _block(self, number: int) -> Block:
        block = self._ledger.block(number)
        if block is None:
            raise _reorganised()
        return block


def _waiting_entries(view: ChainView) -> set[int]:
    """Return the ids of the entries in transactions that wait to be mined."""
    entry_ids: set[int] = set()
    for transaction in view.transactions:
        is_waiting = transaction.hash not in view.receipts
        if is_waiting and transaction.nonce >= view.first_free_nonce:
            entry_ids.update(transaction.entry_ids)
    return entry_ids


def _certain_nonce(
    deep_nonce: int, transactions: Iterable[Transaction], receipts: Mapping[str, Receipt]
) -> int:
    """Return the nonce below which no nonce can change any more.

    Args:
        deep_nonce: The wallet's nonce at a final block.
        transactions: Transactions of open nonces.
        receipts: By hash. A receipt is evidence for its own nonce only: a server that lags may hide
            the receipt of a lower nonce.
    """
    mined = {transaction.nonce for transaction in transactions if transaction.hash in receipts}
    sent = {transaction.nonce for transaction in transactions if transaction.nonce >= deep_nonce}
    certain = deep_nonce
    for nonce in sorted(sent):
        if nonce not in mined:
            break
        certain = nonce + 1
    return certain


def _reorganised() -> ChainUnavailable:
    return ChainUnavailable("could not read the chain", detail="it was reorganised during the read")
