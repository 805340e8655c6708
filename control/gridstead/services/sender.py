# SPDX-License-Identifier: Apache-2.0
"""The sender: takes the calls of a wallet's outbox to the chain, as the only writer of that wallet.

A transaction is stored before it is given to the node, so a crash on any line leaves either a call that is still
queued or signed bytes that the next tick sends. What to do is decided by ``domain.dispatch.plan``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import structlog

from gridstead.domain.batches import subject
from gridstead.domain.calls import Call
from gridstead.domain.dispatch import Plan, Policy, View, Waiting, objection, plan
from gridstead.domain.job import Block
from gridstead.domain.sending import EntryChange, Fees, OutboxEntry, Receipt, Refusal, SendState, Taken, Transaction
from gridstead.errors import ChainUnavailable, TransactionReverted
from gridstead.ports import Account, Clock, Ledger, Outbox, Transactions

log = structlog.get_logger()


def ignore(_: str) -> None:
    """Do nothing at a named point; tests stop the process there instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The ports a sender works through."""

    clock: Clock
    ledger: Ledger
    account: Account
    outbox: Outbox
    transactions: Transactions


class Sender:
    """Sends one wallet's calls.

    Args:
        desk: The outside world.
        policy: How patient it is.
        at: Called with the name of each boundary (``transaction_stored``, ``transaction_sent``, ``receipt_seen``,
            ``outcome_stored``), for tests that crash there.
    """

    def __init__(self, desk: Desk, policy: Policy, *, at: Callable[[str], None] = ignore) -> None:
        self._desk = desk
        self._policy = policy
        self._at = at
        self._waiting: dict[str, Waiting] = {}
        self._refusals: dict[int, Refusal] = {}
        self._last_look: tuple[int, int] | None = None  # when, and how high the chain was

    def tick(self) -> None:
        """Take every open call one step further.

        Raises:
            ChainUnavailable: The chain did not answer; what was stored is taken up by the next tick.
            ConfigError: The wallet cannot pay for its transactions.
        """
        desk = self._desk
        entries = desk.outbox.open_entries()
        genesis = desk.ledger.block(0)
        if genesis is None:
            raise ChainUnavailable("could not read the chain's first block")
        name = f"{genesis.hash}/{desk.account.address}"
        transactions = desk.transactions.open_transactions(name)
        if not entries and not transactions:
            return
        view = self._gather(entries, transactions)
        decided = plan(view, self._policy)
        self._store(name, decided)
        calls = {entry.id: entry.call for entry in entries}
        for slot in decided.replacements:
            carried = tuple(calls[entry_id] for entry_id in slot.entry_ids if entry_id in calls)
            ids = tuple(entry_id for entry_id in slot.entry_ids if entry_id in calls)
            self._send_new(name, self._sign(carried, ids, slot.nonce, slot.fees))
        for transaction in decided.resend:
            self._send(name, transaction)
        self._send_batches(name, decided, view, calls)

    def _gather(self, entries: tuple[OutboxEntry, ...], transactions: tuple[Transaction, ...]) -> View:
        """Return one consistent look: nothing in it is younger than the newest block or of another history."""
        desk = self._desk
        head = desk.ledger.head()
        nonce = desk.account.nonce(at=head)
        found = desk.account.receipts(one.hash for one in transactions)
        receipts = {tx: receipt for tx, receipt in found.items() if receipt.block <= head.number}
        if receipts:
            self._at("receipt_seen")
        for tx in receipts:
            self._waiting.pop(tx, None)  # if a reorg drops it, it is due at once
        objections = self._objections(entries, transactions, receipts, head)
        gas_limit, fees = desk.account.gas_limit(at=head), desk.account.fees()
        present = desk.ledger.block(head.number)
        if present is None or present.hash != head.hash:
            raise ChainUnavailable("could not read the chain", detail="it was reorganised meanwhile")
        now = desk.clock.now()
        self._stop_the_clock(now, head.number)
        open_ids = {entry.id for entry in entries}
        self._refusals = {entry_id: one for entry_id, one in self._refusals.items() if entry_id in open_ids}
        return View(
            now=now,
            head=head.number,
            nonce=nonce,
            entries=entries,
            transactions=transactions,
            receipts=receipts,
            objections=objections,
            waiting=self._waiting,
            fees=fees,
            gas_limit=gas_limit,
            gas={entry.id: desk.account.gas_of(entry.call) for entry in entries},
            refusals=self._refusals,
        )

    def _stop_the_clock(self, now: int, head: int) -> None:
        """Count no waiting while no block comes: a higher offer would not bring one."""
        last, self._last_look = self._last_look, (now, head)
        if last is None or last[1] != head:
            return
        still = max(0, now - last[0])
        for tx, waiting in self._waiting.items():
            self._waiting[tx] = replace(waiting, since=min(now, waiting.since + still))

    def _objections(
        self,
        entries: tuple[OutboxEntry, ...],
        transactions: tuple[Transaction, ...],
        receipts: Mapping[str, Receipt],
        head: Block,
    ) -> dict[int, str]:
        mined = {entry_id for one in transactions if one.hash in receipts for entry_id in one.entry_ids}
        unmined = [entry for entry in entries if entry.id not in mined]
        named = {entry.id: proof.job_id.number for entry in unmined if (proof := subject(entry.call)) is not None}
        jobs = self._desk.ledger.jobs(sorted(set(named.values())), at=head) if named else {}
        wallet = self._desk.account.address
        reasons = {
            entry.id: objection(entry.call, jobs.get(named[entry.id]), wallet=wallet)
            for entry in unmined
            if entry.id in named
        }
        return {entry_id: reason for entry_id, reason in reasons.items() if reason}

    def _store(self, name: str, decided: Plan) -> None:
        if not (decided.changes or decided.withdrawn or decided.closed):
            return
        self._desk.transactions.record(
            name, changes=decided.changes, withdrawn=decided.withdrawn, closed=decided.closed
        )
        _tell(decided.changes)
        for nonce in decided.withdrawn:
            log.warning("transaction_withdrawn", nonce=nonce)
        self._at("outcome_stored")

    def _send_batches(self, name: str, decided: Plan, view: View, calls: Mapping[int, Call]) -> None:
        nonce = decided.next_nonce
        for entry_ids in decided.batches:
            batch = tuple(calls[entry_id] for entry_id in entry_ids)
            try:
                gas = self._desk.account.gas(batch)
            except TransactionReverted as error:
                # What waits to be mined may be what this call needs; only without it the answer is the last word.
                if nonce == view.nonce:
                    self._reject(name, entry_ids, str(error))
                continue
            fees = view.fees
            signed = self._desk.account.sign(batch, entry_ids=entry_ids, nonce=nonce, gas=gas, fees=fees)
            self._send_new(name, signed)
            nonce += 1

    def _sign(self, calls: tuple[Call, ...], entry_ids: tuple[int, ...], nonce: int, fees: Fees) -> Transaction:
        account = self._desk.account
        try:
            gas = account.gas(calls)
        except TransactionReverted:
            # Refused as the chain stands; the nonce must be used up all the same. Its entries go back to the queue.
            calls, entry_ids = (), ()
            gas = account.gas(())
        return account.sign(calls, entry_ids=entry_ids, nonce=nonce, gas=gas, fees=fees)

    def _reject(self, name: str, entry_ids: tuple[int, ...], reason: str) -> None:
        changes = [EntryChange(entry_id=one, state=SendState.REJECTED, reason=reason) for one in entry_ids]
        self._desk.transactions.record(name, changes=changes, withdrawn=(), closed=())
        _tell(changes)

    def _send_new(self, name: str, transaction: Transaction) -> None:
        self._desk.transactions.add(name, transaction)
        self._at("transaction_stored")
        self._send(name, transaction)

    def _send(self, name: str, transaction: Transaction) -> None:
        """Give a stored transaction to the node and remember when."""
        now = self._desk.clock.now()
        reply = self._desk.account.send(transaction)
        self._at("transaction_sent")
        before = self._waiting.get(transaction.hash, Waiting(since=now, last=now))
        self._waiting[transaction.hash] = replace(before, last=now, underpriced=reply.taken is Taken.UNDERPRICED)
        if reply.taken is Taken.REFUSED:
            self._put_aside(name, transaction, reply.words)
        if transaction.sent_at is None and reply.taken is Taken.TAKEN:
            self._desk.transactions.mark_sent(name, [transaction.hash], at=now)
            log.info("transaction_sent", tx=transaction.hash, nonce=transaction.nonce, calls=len(transaction.entry_ids))

    def _put_aside(self, name: str, transaction: Transaction, words: str) -> None:
        """Withdraw what the node will not have; the next tick fills its nonce and sends its calls in other company.

        What it had taken before may be mined yet, and what carries no call has nothing to give back: they are only
        given to the node again, and replaced in time.
        """
        calls = len(transaction.entry_ids)
        log.warning("transaction_refused", tx=transaction.hash, nonce=transaction.nonce, calls=calls, reason=words)
        if transaction.sent_at is not None or not calls:
            return
        self._refusals |= dict.fromkeys(transaction.entry_ids, Refusal(calls=calls, words=words))
        self._desk.transactions.record(name, changes=(), withdrawn=(transaction.nonce,), closed=())


def _tell(changes: Iterable[EntryChange]) -> None:
    final = 0
    for change in changes:
        final += change.state is SendState.FINAL
        if change.state is SendState.REJECTED:
            log.warning("call_rejected", entry=change.entry_id, reason=change.reason)
    if final:
        log.info("calls_finished", calls=final)
