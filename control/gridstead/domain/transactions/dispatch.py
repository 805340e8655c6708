# SPDX-License-Identifier: Apache-2.0
"""Decides what the sender of a wallet does next, from one snapshot of the chain and the outbox.

An entry of the outbox is one call to the contracts. The state of an entry follows from the
transactions that carry its call:

- The entry is mined if one of these transactions made the call, and final if this transaction has
  enough confirmations.
- If not, the entry is sent if one of the transactions may still be mined.
- If all mined transactions failed or skipped the call, the entry is mined until the first of them
  has enough confirmations. Then the entry is rejected.
- If no transaction is mined or may still be mined, the entry is queued.

An *objection* is a reason why a call must not be sent any more (``objection.py``). A sent or queued
entry with an objection becomes rejected.

A nonce is *open* until one of its transactions has enough confirmations. A *nonce gap* is an open
nonce without a transaction that may be mined, below a nonce that has such a transaction. A gap
blocks all transactions with higher nonces, so the sender fills the gap with an empty transaction. A
withdrawn transaction does not fill a gap.

Two limits bound the pending transactions: the number of their nonces, and their gas. The limits are
high enough to fill the next block, and low enough that no transaction stays in the node's pool for
long.

A transaction that the node refuses is withdrawn. Its calls are sent again in batches of half the
size. A call that the node refuses in a batch of its own is rejected, so it does not delay other
calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from gridstead.domain.transactions.batches import pack_batches
from gridstead.domain.transactions.calls import job_key_of
from gridstead.domain.transactions.fees import replacement_fees
from gridstead.domain.transactions.outbox import (
    ChainView,
    EntryChange,
    Fees,
    OutboxEntry,
    Receipt,
    SendState,
    Transaction,
)
from gridstead.domain.transactions.plan import DispatchPolicy, TransactionPlan, UnsignedTransaction

BASE_GAS = 80_000  # approximate gas of a transaction without its calls


def plan_transactions(view: ChainView, policy: DispatchPolicy) -> TransactionPlan:
    """Return what the sender does next."""
    return _TransactionPlanner(view, policy).decide()


@dataclass(slots=True)
class _TransactionPlanner:
    view: ChainView
    policy: DispatchPolicy
    by_nonce: dict[int, list[Transaction]] = field(default_factory=dict)
    by_entry: dict[int, list[Transaction]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for transaction in self.view.transactions:
            self.by_nonce.setdefault(transaction.nonce, []).append(transaction)
            for entry_id in transaction.entry_ids:
                self.by_entry.setdefault(entry_id, []).append(transaction)

    def decide(self) -> TransactionPlan:
        changes = {entry.id: self._change_of(entry) for entry in self.view.entries}
        withdrawn_nonces = self._nonces_to_withdraw(changes.values())
        live_transactions = self._live_transactions(withdrawn_nonces)
        self._requeue(changes, live_transactions.values())

        next_nonce = self._next_nonce()
        first_free_nonce = self.view.first_free_nonce
        pending_transactions = [
            transaction
            for transaction in live_transactions.values()
            if transaction.nonce >= first_free_nonce
        ]
        replaceable_transactions = pending_transactions[: self.policy.max_replacements]
        stuck_transactions = set(filter(self._is_stuck, replaceable_transactions))
        gap_fillers = self._gap_fillers(live_transactions, next_nonce)
        replacements = self._replacements(pending_transactions, stuck_transactions)
        to_send = self._transactions_to_send(pending_transactions, stuck_transactions)
        open_nonce_count = next_nonce - self.view.certain_nonce
        batches = self._batches(changes, live_transactions.values(), open_nonce_count)
        return TransactionPlan(
            changes=tuple(self._new_states(changes)),
            withdrawn_nonces=withdrawn_nonces,
            closed_nonces=tuple(filter(self._is_closed, sorted(self.by_nonce))),
            replacements=(*gap_fillers, *replacements),
            to_send=tuple(to_send),
            batches=tuple(batches),
            next_nonce=next_nonce,
        )

    # The states of the entries

    def _change_of(self, entry: OutboxEntry) -> EntryChange:
        """Return the state of an entry that follows from receipts, objections and refusals."""
        transactions = self.by_entry.get(entry.id, [])
        receipts = self._receipts_of(transactions)
        for receipt in receipts:
            if receipt.succeeded and _skip_reason(entry, receipt) is None:
                state = SendState.FINAL if self._is_final(receipt) else SendState.MINED
                return EntryChange(entry_id=entry.id, state=state)
        if any(map(self._is_pending, transactions)):
            return self._unless_objected(entry, SendState.SENT)
        if not receipts:
            return self._unsent_change(entry)
        if not self._is_final(receipts[0]):
            return EntryChange(entry_id=entry.id, state=SendState.MINED)
        error = _skip_reason(entry, receipts[0])
        return EntryChange(
            entry_id=entry.id,
            state=SendState.REJECTED,
            reason=error or "the transaction failed",
            is_skipped=error is not None,
        )

    def _unsent_change(self, entry: OutboxEntry) -> EntryChange:
        """Return the state of an entry that is in no block and in no pending transaction."""
        change = self._unless_objected(entry, SendState.QUEUED)
        refusal = self.view.refusals.get(entry.id)
        if change.state is SendState.REJECTED or refusal is None or refusal.call_count != 1:
            return change
        reason = f'the node refused the transaction: "{refusal.message}"'
        return EntryChange(entry_id=entry.id, state=SendState.REJECTED, reason=reason)

    def _unless_objected(self, entry: OutboxEntry, state: SendState) -> EntryChange:
        """Return this state, or REJECTED if there is an objection to the entry."""
        reason = self.view.objections.get(entry.id, "")
        if reason:
            return EntryChange(entry_id=entry.id, state=SendState.REJECTED, reason=reason)
        return EntryChange(entry_id=entry.id, state=state)

    def _requeue(
        self, changes: dict[int, EntryChange], live_transactions: Iterable[Transaction]
    ) -> None:
        """Queue again each sent entry whose transaction this plan withdraws."""
        live_entry_ids: set[int] = set()
        for transaction in live_transactions:
            live_entry_ids.update(transaction.entry_ids)
        for entry_id, change in changes.items():
            if change.state is SendState.SENT and entry_id not in live_entry_ids:
                changes[entry_id] = EntryChange(entry_id=entry_id, state=SendState.QUEUED)

    def _new_states(self, changes: Mapping[int, EntryChange]) -> Iterator[EntryChange]:
        """Yield the changes that differ from the stored states."""
        for entry in self.view.entries:
            change = changes[entry.id]
            if change.state is not entry.state:
                yield change

    # The states of the nonces

    def _nonces_to_withdraw(self, changes: Iterable[EntryChange]) -> tuple[int, ...]:
        """Return the nonces with a pending transaction that carries a rejected call. Sorted."""
        rejected_ids = {change.entry_id for change in changes if change.state is SendState.REJECTED}
        nonces = set()
        for transaction in filter(self._is_pending, self.view.transactions):
            if not rejected_ids.isdisjoint(transaction.entry_ids):
                nonces.add(transaction.nonce)
        return tuple(sorted(nonces))

    def _live_transactions(self, withdrawn_nonces: Collection[int]) -> dict[int, Transaction]:
        """Return the newest pending transaction of each nonce, in the order of the nonces.

        The newest transaction of a nonce offers the highest fees. Nonces to withdraw are left out.
        """
        live_transactions = {}
        for nonce in sorted(self.by_nonce):
            pending_transactions = self._pending_transactions(nonce)
            if pending_transactions and nonce not in withdrawn_nonces:
                live_transactions[nonce] = pending_transactions[-1]
        return live_transactions

    def _next_nonce(self) -> int:
        """Return the lowest nonce above all transactions."""
        if not self.by_nonce:
            return self.view.first_free_nonce
        return max(self.view.first_free_nonce, max(self.by_nonce) + 1)

    def _pending_transactions(self, nonce: int) -> list[Transaction]:
        """Return the transactions of a nonce that may still be mined, oldest first."""
        return list(filter(self._is_pending, self.by_nonce[nonce]))

    def _is_pending(self, transaction: Transaction) -> bool:
        """Return whether a transaction is not withdrawn and may still be mined."""
        return transaction.nonce >= self.view.certain_nonce and not transaction.withdrawn

    def _is_closed(self, nonce: int) -> bool:
        """Return whether the receipts of a nonce are final.

        A nonce is also closed if another program's transaction has used it.
        """
        receipts = self._receipts_of(self.by_nonce[nonce])
        if receipts:
            return all(map(self._is_final, receipts))
        return nonce < self.view.certain_nonce

    def _is_final(self, receipt: Receipt) -> bool:
        return self.view.head - receipt.block >= self.policy.confirmations

    def _receipts_of(self, transactions: Iterable[Transaction]) -> list[Receipt]:
        receipts = []
        for transaction in transactions:
            receipt = self.view.receipts.get(transaction.hash)
            if receipt is not None:
                receipts.append(receipt)
        return receipts

    # Replacing and sending again

    def _gap_fillers(
        self, live_transactions: Mapping[int, Transaction], next_nonce: int
    ) -> Iterator[UnsignedTransaction]:
        """Yield an empty transaction for each nonce gap.

        Mined transactions have used the nonces below the first free one. So these nonces are no
        gaps, even if their receipts are missing.
        """
        for nonce in range(self.view.first_free_nonce, next_nonce):
            if nonce not in live_transactions:
                yield UnsignedTransaction(nonce=nonce, entry_ids=(), fees=self._fees_for(nonce))

    def _replacements(
        self, pending: Iterable[Transaction], stuck_transactions: Collection[Transaction]
    ) -> Iterator[UnsignedTransaction]:
        """Yield a replacement for each stuck transaction whose calls may be sent.

        If the node refuses every transaction of the nonce, the replacement has no entries: an empty
        transaction uses the nonce, and the calls return to the queue.
        """
        for transaction in pending:
            if transaction not in stuck_transactions:
                continue
            entry_ids = transaction.entry_ids
            if all(map(self._is_refused, self._pending_transactions(transaction.nonce))):
                entry_ids = ()
            if self.view.may_send(entry_ids):
                fees = self._fees_for(transaction.nonce)
                yield UnsignedTransaction(nonce=transaction.nonce, entry_ids=entry_ids, fees=fees)

    def _transactions_to_send(
        self, pending: Iterable[Transaction], stuck_transactions: Collection[Transaction]
    ) -> Iterator[Transaction]:
        """Yield the transactions that must be sent now, for the first time or again."""
        for newest in pending:
            if newest in stuck_transactions or not self.view.may_send(newest.entry_ids):
                continue
            transaction = self._sendable_version(newest)
            if self._is_due(transaction):
                yield transaction

    def _sendable_version(self, newest: Transaction) -> Transaction:
        """Return the newest transaction of a nonce that the node did not refuse.

        If the node refused all of them, returns the newest one. If a node has dropped a transaction
        and then refuses its replacement permanently, only the older transaction can be mined.
        """
        for transaction in reversed(self._pending_transactions(newest.nonce)):
            if not self._is_refused(transaction):
                return transaction
        return newest

    def _is_refused(self, transaction: Transaction) -> bool:
        status = self.view.statuses.get(transaction.hash)
        return status is not None and status.refused

    def _is_stuck(self, transaction: Transaction) -> bool:
        """Return whether a transaction needs higher fees that do not exceed the limit."""
        status = self.view.statuses.get(transaction.hash)
        if status is None or self._is_too_expensive(self._fees_for(transaction.nonce)):
            return False
        return (
            status.underpriced
            or self.view.now - status.waiting_since >= self.policy.replace_after_s
        )

    def _is_due(self, transaction: Transaction) -> bool:
        status = self.view.statuses.get(transaction.hash)
        return status is None or self.view.now - status.last_sent_at >= self.policy.resend_after_s

    def _is_too_expensive(self, fees: Fees) -> bool:
        factor, current_fees = self.policy.max_fee_factor, self.view.fees
        return fees.max_fee > factor * current_fees.max_fee or fees.tip > factor * current_fees.tip

    def _fees_for(self, nonce: int) -> Fees:
        """Return the fees that the next transaction of a nonce must offer."""
        earlier = (transaction.fees for transaction in self.by_nonce.get(nonce, []))
        return replacement_fees(earlier, self.view.fees)

    # New transactions

    def _batches(
        self,
        changes: Mapping[int, EntryChange],
        live_transactions: Iterable[Transaction],
        open_nonce_count: int,
    ) -> Iterator[tuple[int, ...]]:
        """Yield the new batches that fit into the limits of the pending transactions.

        If no nonce is open, the first batch is yielded even if it exceeds the gas limits.

        Args:
            changes: The states of all entries, by entry id.
            live_transactions: The pending transactions.
            open_nonce_count: How many nonces from ``view.certain_nonce`` on are in use, including
                gaps.
        """
        view, policy = self.view, self.policy
        pending_gas = sum(self._max_gas(transaction.entry_ids) for transaction in live_transactions)
        gas_for_pending = policy.max_pending_gas_in_blocks * view.gas_limit - pending_gas
        remaining_gas = min(gas_for_pending, policy.max_new_gas_in_blocks * view.gas_limit)
        batches = pack_batches(
            self._sendable_entries(changes),
            max_calls=policy.max_batch_calls,
            gas_limit=view.gas_limit // policy.batch_gas_divisor,
            max_gas=view.max_gas,
            refusals=view.refusals,
        )
        for entry_ids in islice(batches, max(0, policy.max_pending_nonces - open_nonce_count)):
            remaining_gas -= self._max_gas(entry_ids)
            if remaining_gas < 0 and open_nonce_count > 0:
                return
            open_nonce_count += 1
            yield entry_ids

    def _sendable_entries(self, changes: Mapping[int, EntryChange]) -> Iterator[OutboxEntry]:
        """Yield the queued entries whose calls may be sent now, oldest first."""
        for entry in self.view.entries:
            is_queued = changes[entry.id].state is SendState.QUEUED
            if is_queued and self.view.may_send([entry.id]):
                yield entry

    def _max_gas(self, entry_ids: Iterable[int]) -> int:
        """Return the maximum gas of a transaction with the calls of these entries."""
        return BASE_GAS + sum(self.view.max_gas.get(entry_id, 0) for entry_id in entry_ids)


def _skip_reason(entry: OutboxEntry, receipt: Receipt) -> str | None:
    """Return why the contract skipped the entry's call. Returns None if it was not skipped."""
    job_key = job_key_of(entry.call)
    return None if job_key is None else receipt.skipped.get(job_key.job_id)
