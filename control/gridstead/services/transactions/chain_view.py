# SPDX-License-Identifier: Apache-2.0
"""Reads the sender's view of the chain, once per tick.

Rule 1: all values of a view are from blocks up to its newest block, on one fork.

Rule 2: an irreversible decision uses the state at the parent of the newest block. A node may
already change the state of its newest block while it computes the next block. Then a call may seem
to be executed before the transaction of the call is in a block.

Rule 3: a value that was read stays valid until a reorg. A reorg is detected by the hash of the last
block that was read.

Rule 4: an endpoint may have several servers, and some of them may lag or be on another fork. If a
nonce was used long ago and there is no receipt, another program's transaction used it. If the nonce
was used recently, a missing receipt proves nothing. A receipt is valid only while its block is part
of the chain.

An *objection* is the reason why a call must not be sent any more (``domain/transactions``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block
from gridstead.domain.transactions.calls import Call, job_key_of
from gridstead.domain.transactions.objection import objection
from gridstead.domain.transactions.outbox import (
    ChainView,
    NodeRefusal,
    OutboxEntry,
    PendingStatus,
    Receipt,
    Transaction,
)
from gridstead.domain.transactions.plan import TransactionPlan
from gridstead.errors import ChainUnavailable
from gridstead.ports import AccountState, Clock, Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSnapshot:
    """The content of a wallet's outbox, and what the sender remembers about the transactions.

    Attributes:
        entries: Open entries, oldest first.
        transactions: Transactions of open nonces, sorted by nonce and then by age.
        statuses: The status of each pending transaction that this process sent, by hash.
        refusals: By entry id, the last refusal of a transaction that contained the entry's call.
    """

    entries: tuple[OutboxEntry, ...]
    transactions: tuple[Transaction, ...]
    statuses: Mapping[str, PendingStatus]
    refusals: Mapping[int, NodeRefusal]


class ChainViewReader:
    """Reads the chain for one wallet.

    Args:
        clock: Wall time.
        ledger: The chain.
        account: The wallet.
        confirmations: A block is final when this many blocks follow it. If a nonce is used at a
            final block but there is no receipt, another program used the nonce. A receipt is
            checked once more when the block of the receipt is final.
    """

    def __init__(
        self, clock: Clock, ledger: Ledger, account: AccountState, *, confirmations: int
    ) -> None:
        self._confirmations = confirmations
        self._clock = clock
        self._ledger = ledger
        self._account = account
        self._receipts: dict[str, Receipt] = {}
        # The newest block of the last complete read, and its parent.
        self._last_read: tuple[Block, Block] | None = None
        self._is_reorganised = True

    def read(self, snapshot: OutboxSnapshot) -> ChainView:
        """Return a view without objections.

        Raises:
            ChainUnavailable: If the chain did not answer, or was reorganised during the read.
        """
        account, last_read = self._account, self._last_read
        head = self._ledger.head()
        parent = self._block(head.number - 1) if head.number else head
        self._is_reorganised = True
        if last_read is not None:
            self._is_reorganised = not self._is_canonical(last_read[0], head, parent)
        self._last_read = None  # it stays None until this read is complete
        nonce_at_head = account.nonce(at_block=head)
        receipts = self._read_receipts(snapshot.transactions, head, nonce_at_head)
        final_block = parent
        if self._confirmations > 1:
            final_block = self._block(max(0, head.number - self._confirmations))
        final_nonce = account.nonce(at_block=final_block)
        certain_nonce = _certain_nonce(final_nonce, snapshot.transactions, receipts)
        gas_limit, fees = account.gas_limit(at_block=head), account.fees()
        self._check_unchanged(head)
        self._last_read, self._receipts = (head, parent), receipts
        return ChainView(
            now=self._clock.now(),
            head=head.number,
            certain_nonce=certain_nonce,
            nonce_at_head=nonce_at_head,
            entries=snapshot.entries,
            transactions=snapshot.transactions,
            receipts=receipts,
            objections={},
            statuses=snapshot.statuses,
            fees=fees,
            gas_limit=gas_limit,
            max_gas={entry.id: account.gas_of(entry.call) for entry in snapshot.entries},
            refusals=snapshot.refusals,
        )

    def with_objections(self, view: ChainView, plan: TransactionPlan) -> ChainView:
        """Return the view with the objections to the calls that the plan would send to the node.

        After a reorg, and in the first tick of a process, the calls of all pending transactions are
        checked too.

        Raises:
            ChainUnavailable: If the chain did not answer, or was reorganised during the read.
        """
        entry_ids = set(plan.entry_ids_to_send)
        if self._is_reorganised:
            entry_ids |= _pending_entry_ids(view)
        if not entry_ids or self._last_read is None:
            return replace(view, sendable_ids=frozenset())
        head, parent = self._last_read
        calls = {entry.id: entry.call for entry in view.entries if entry.id in entry_ids}
        objections_at_head = self._objections(calls, head)
        doubtful_calls = {entry_id: calls[entry_id] for entry_id in objections_at_head}
        objections_at_parent = self._objections(doubtful_calls, parent)
        self._check_unchanged(head)
        # Rule 2: a call is rejected only if there is an objection at both blocks. If there is an
        # objection only at the newest block, the call is not sent in this tick.
        objections = {entry_id: objections_at_head[entry_id] for entry_id in objections_at_parent}
        sendable_ids = frozenset(entry_ids - objections_at_head.keys())
        return replace(view, objections=objections, sendable_ids=sendable_ids)

    def _read_receipts(
        self, transactions: Collection[Transaction], head: Block, nonce_at_head: int
    ) -> dict[str, Receipt]:
        """Return the receipts of mined transactions. Cached receipts are not requested again."""
        cached_receipts = {} if self._is_reorganised else self._receipts
        receipts: dict[str, Receipt] = {}
        # Receipts whose blocks must be compared with the chain.
        to_check: dict[str, Receipt] = {}
        to_request: list[str] = []
        for transaction in transactions:
            tx_hash = transaction.hash
            if tx_hash in cached_receipts:
                receipts[tx_hash] = cached_receipts[tx_hash]
                if head.number - cached_receipts[tx_hash].block >= self._confirmations:
                    to_check[tx_hash] = cached_receipts[tx_hash]
            elif transaction.nonce < nonce_at_head:
                to_request.append(tx_hash)
        if to_request:
            new_receipts = dict(self._account.receipts(to_request))
            receipts |= new_receipts
            to_check |= new_receipts
        for tx_hash in self._receipts_of_other_forks(to_check, head):
            del receipts[tx_hash]
        return receipts

    def _receipts_of_other_forks(self, receipts: Mapping[str, Receipt], head: Block) -> list[str]:
        """Return the hashes of transactions whose receipt is of a block that is not canonical."""
        block_hashes: dict[int, str] = {}
        for number in {receipt.block for receipt in receipts.values()}:
            if number <= head.number:
                block_hashes[number] = self._block(number).hash
        forked_hashes: list[str] = []
        for tx_hash, receipt in receipts.items():
            if block_hashes.get(receipt.block) != receipt.block_hash:
                forked_hashes.append(tx_hash)
        return forked_hashes

    def _objections(self, calls: Mapping[int, Call], at_block: Block) -> dict[int, str]:
        """Return the objections to the calls in the state of a block, by entry id."""
        job_ids: dict[int, JobId] = {}
        for entry_id, call in calls.items():
            job_key = job_key_of(call)
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

    def _is_canonical(self, block: Block, head: Block, parent: Block) -> bool:
        """Return whether a block is still part of the chain."""
        if block.number > head.number:
            return False
        for canonical in (head, parent):
            if canonical.number == block.number:
                return canonical.hash == block.hash
        return self._block(block.number).hash == block.hash

    def _check_unchanged(self, head: Block) -> None:
        if self._block(head.number).hash != head.hash:
            raise _reorg_error()

    def _block(self, number: int) -> Block:
        block = self._ledger.block(number)
        if block is None:
            raise _reorg_error()
        return block


def _pending_entry_ids(view: ChainView) -> set[int]:
    """Return the ids of the entries whose calls are in pending transactions."""
    entry_ids: set[int] = set()
    for transaction in view.transactions:
        is_pending = transaction.hash not in view.receipts
        if is_pending and transaction.nonce >= view.first_free_nonce:
            entry_ids.update(transaction.entry_ids)
    return entry_ids


def _certain_nonce(
    final_nonce: int, transactions: Iterable[Transaction], receipts: Mapping[str, Receipt]
) -> int:
    """Return the wallet's next nonce that is certain from final blocks and from receipts.

    Args:
        final_nonce: The wallet's next nonce at a final block.
        transactions: Transactions of open nonces.
        receipts: Receipts by hash of the transaction. A receipt proves that our transaction used
            its nonce. It does not show which transaction used a lower nonce that has no receipt: a
            server that lags may omit the receipt for the lower nonce.
    """
    mined_nonces: set[int] = set()
    sent_nonces: set[int] = set()
    for transaction in transactions:
        if transaction.hash in receipts:
            mined_nonces.add(transaction.nonce)
        if transaction.nonce >= final_nonce:
            sent_nonces.add(transaction.nonce)
    certain_nonce = final_nonce
    # The first sent nonce without a receipt, and all higher nonces, are not certain.
    for nonce in sorted(sent_nonces):
        if nonce not in mined_nonces:
            break
        certain_nonce = nonce + 1
    return certain_nonce


def _reorg_error() -> ChainUnavailable:
    return ChainUnavailable("could not read the chain", detail="it was reorganised during the read")
