# SPDX-License-Identifier: Apache-2.0
"""What the sender of a wallet does next: one pure function over one look at chain and outbox.

An entry's state follows from the transactions that carry it: done if one of them succeeded, on its
way if one may still be mined, queued otherwise. A nonce is *open* until one of its transactions has
enough confirmations. A nonce whose transactions are all withdrawn, or that has none below one that
has, is a gap and is filled with a transaction that does nothing: nothing behind a gap can be mined,
and a withdrawn transaction must not be what fills it.

What waits is bounded: by nonces, and by the gas of some blocks, so that the node always has the
next block's worth and nothing lies in its pool for long.

A transaction that the node refuses is withdrawn, and its calls go again in batches of half the
size: what is refused alone is rejected, and holds up no other call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from gridstead.domain.batches import pack, subject
from gridstead.domain.calls import Call, Expire, Match, Refuse, Settle
from gridstead.domain.job import Job
from gridstead.domain.lifecycle import COLD, JobState, is_legal
from gridstead.domain.sending import (
    ChainView,
    EntryChange,
    Fees,
    OutboxEntry,
    Receipt,
    SendState,
    Transaction,
)

BASE_GAS = 80_000  # what a transaction uses beside its calls, roughly


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchPolicy:
    """How the sender goes about it.

    Attributes:
        confirmations: Blocks on top of a transaction's own that make it final.
        batch: Most calls in one transaction.
        in_flight: Most nonces that wait to be mined.
        blocks_ahead: What waits may fill so many blocks, by the most gas that it can use.
        blocks_at_once: One tick adds no more than so many blocks' worth, so that it soon has
            something to send.
        queued: So many of the calls that wait for a transaction are looked at, the oldest.
        resend_after_s: A transaction that waits is given to the node again so often.
        replace_after_s: A transaction that waited so long, while blocks came, is replaced by one
            that offers more.
        replaced: Only so many of those that wait are replaced, the lowest nonces: the others are
            mined after them.
        dearest: No replacement offers more than so many times what a transaction should offer now.
        gas_share: A batch may use a block's gas divided by this.
    """

    confirmations: int
    batch: int = 50
    in_flight: int = 512
    blocks_ahead: int = 8
    blocks_at_once: int = 2
    queued: int = 2000
    resend_after_s: int = 10
    replace_after_s: int = 45
    replaced: int = 16
    dearest: int = 10
    gas_share: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A nonce to be signed for: with these entries, or to no effect if there are none."""

    nonce: int
    entry_ids: tuple[int, ...]
    fees: Fees


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPlan:
    """What to do, in this order.

    Attributes:
        changes: New states of entries.
        withdrawn: Nonces whose transactions must never be sent again.
        closed: Nonces that are settled for good.
        replacements: Nonces to be signed for again: gaps and transactions that are stuck.
        resend: Transactions to be given to the node (again), by nonce.
        batches: Entry ids to be sent together, in this order, each under a nonce of its own from
            ``next_nonce`` on.
    """

    changes: tuple[EntryChange, ...] = ()
    withdrawn: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()
    replacements: tuple[Slot, ...] = ()
    resend: tuple[Transaction, ...] = ()
    batches: tuple[tuple[int, ...], ...] = ()
    next_nonce: int = 0

    @property
    def given(self) -> frozenset[int]:
        """The entries whose calls would be given to the node."""
        replaced, again = (
            (one.entry_ids for one in self.replacements),
            (one.entry_ids for one in self.resend),
        )
        return frozenset(chain(*replaced, *again, *self.batches))


def objection(call: Call, job: Job | None, *, wallet: str) -> str:
    """Return why a call must not be sent to the chain as it is now, empty if nothing is against it.

    Args:
        call: A call that is in no block.
        job: The chain's job of the call's number, at the newest block; None if there is none.
        wallet: The sender, lower case.
    """
    job_key = subject(call)
    if job_key is None:
        return ""
    if job is None:
        return "there is no such job any more"
    if job.job_key != job_key:
        return "the job's number belongs to another job now"
    if isinstance(call, Match):
        return "" if job.state is JobState.PENDING else f"the job is {job.state.name}"
    if isinstance(call, Expire):
        has_moved = (job.state, job.state_block) != (call.state, call.state_block)
        return f"the job has moved on and is {job.state.name}" if has_moved else ""
    if job.provider != wallet:
        return "the job belongs to another provider now"
    if job.state in COLD or (isinstance(call, Refuse) and job.state is JobState.RUNNING):
        return f"the job is {job.state.name}"
    if (
        isinstance(call, Settle)
        and call.seconds
        and job.state is JobState.SCHEDULED
        and is_legal(job.state, call.state)
    ):
        # Its start was reorganised away: the contract would take the end and pay for nothing.
        return "the job has not started on chain"
    return ""


def raised(fees: Fees) -> Fees:
    """Return fees that a node accepts for a replacement: an eighth more, rounded up."""
    return Fees(max_fee=fees.max_fee + fees.max_fee // 8 + 1, tip=fees.tip + fees.tip // 8 + 1)


def plan_transactions(view: ChainView, policy: DispatchPolicy) -> TransactionPlan:
    """Return what the sender does next."""
    return _TransactionPlanner(view, policy).plan()


@dataclass(slots=True)
class _TransactionPlanner:
    view: ChainView
    policy: DispatchPolicy
    slots: dict[int, list[Transaction]] = field(default_factory=dict)
    carriers: dict[int, list[Transaction]] = field(default_factory=dict)

    def plan(self) -> TransactionPlan:
        slots, carriers = defaultdict(list), defaultdict(list)
        for transaction in self.view.transactions:
            slots[transaction.nonce].append(transaction)
            for entry_id in transaction.entry_ids:
                carriers[entry_id].append(transaction)
        self.slots, self.carriers = dict(slots), dict(carriers)

        states = {entry.id: self._state(entry) for entry in self.view.entries}
        refused = {
            change.entry_id for change in states.values() if change.state is SendState.REJECTED
        }
        withdrawn = tuple(
            nonce for nonce in sorted(self.slots) if self._must_withdraw(nonce, refused)
        )
        live = {
            n: one
            for n in sorted(self.slots)
            if n not in withdrawn and (one := self._live(n)) is not None
        }
        carried = {entry_id for one in live.values() for entry_id in one.entry_ids}
        states = {i: self._unsent(change, carried) for i, change in states.items()}

        first = self.view.first
        top = max([first, *(nonce + 1 for nonce in self.slots if nonce >= first)])
        gaps = [n for n in range(first, top) if n not in live]
        # Below, the nonce is used: by a transaction whose receipt has yet to be seen, or by a
        # stranger's.
        open_ones = [one for nonce, one in live.items() if nonce >= first]
        sendable = [one for one in open_ones if self.view.are_cleared(one.entry_ids)]
        stuck = {one.hash for one in islice(open_ones, self.policy.replaced) if self._is_stuck(one)}
        patient = [one for one in sendable if one.hash not in stuck]
        queued = [
            entry for entry in self.view.entries if states[entry.id].state is SendState.QUEUED
        ]
        return TransactionPlan(
            changes=tuple(
                states[e.id] for e in self.view.entries if states[e.id].state is not e.state
            ),
            withdrawn=tuple(
                n for n in withdrawn if not all(one.withdrawn for one in self.slots[n])
            ),
            closed=tuple(nonce for nonce in sorted(self.slots) if self._is_settled(nonce)),
            replacements=(
                *(Slot(nonce=nonce, entry_ids=(), fees=self._fees(nonce)) for nonce in gaps),
                *(
                    Slot(nonce=one.nonce, entry_ids=one.entry_ids, fees=self._fees(one.nonce))
                    for one in sendable
                    if one.hash in stuck
                ),
            ),
            resend=tuple(again for again in map(self._again, patient) if self._is_due(again)),
            batches=tuple(self._batches(queued, live.values(), nonces=top - self.view.nonce)),
            next_nonce=top,
        )

    def _batches(
        self, queued: Iterable[OutboxEntry], live: Iterable[Transaction], *, nonces: int
    ) -> Iterator[tuple[int, ...]]:
        """Yield what goes out, as far as there is room beside what waits; if nothing waits, the
        first in any case.
        """
        view, policy = self.view, self.policy
        room = policy.blocks_ahead * view.gas_limit - sum(self._gas(one.entry_ids) for one in live)
        room = min(room, policy.blocks_at_once * view.gas_limit)
        sendable = (entry for entry in queued if view.are_cleared([entry.id]))
        limit = view.gas_limit // policy.gas_share
        batches = pack(
            sendable, most=policy.batch, gas_limit=limit, gas=view.gas, refusals=view.refusals
        )
        for entry_ids in islice(batches, max(0, policy.in_flight - nonces)):
            room -= self._gas(entry_ids)
            if room < 0 and nonces > 0:
                return
            nonces += 1
            yield entry_ids

    def _gas(self, entry_ids: Iterable[int]) -> int:
        return BASE_GAS + sum(self.view.gas.get(entry_id, 0) for entry_id in entry_ids)

    def _state(self, entry: OutboxEntry) -> EntryChange:
        """Return what became of an entry, as far as blocks and objections say."""
        mined = [
            self.view.receipts[t.hash]
            for t in self.carriers.get(entry.id, ())
            if t.hash in self.view.receipts
        ]
        job_key = subject(entry.call)
        number = job_key.job_id.number if job_key else -1
        for receipt in mined:
            if receipt.succeeded and number not in receipt.skipped:
                state = SendState.FINAL if self._is_final(receipt) else SendState.MINED
                return EntryChange(entry_id=entry.id, state=state)
        if any(map(self._waits, self.carriers.get(entry.id, ()))):
            if reason := self.view.objections.get(entry.id, ""):
                return EntryChange(entry_id=entry.id, state=SendState.REJECTED, reason=reason)
            return EntryChange(entry_id=entry.id, state=SendState.SENT)
        for receipt in mined:
            if not self._is_final(receipt):
                return EntryChange(entry_id=entry.id, state=SendState.MINED)
            reason = receipt.skipped.get(number, "the transaction failed")
            return EntryChange(entry_id=entry.id, state=SendState.REJECTED, reason=reason)
        if reason := self.view.objections.get(entry.id, ""):
            return EntryChange(entry_id=entry.id, state=SendState.REJECTED, reason=reason)
        refusal = self.view.refusals.get(entry.id)
        if refusal is not None and refusal.calls == 1:
            reason = f'the node refused it: "{refusal.words}"'
            return EntryChange(entry_id=entry.id, state=SendState.REJECTED, reason=reason)
        return EntryChange(entry_id=entry.id, state=SendState.QUEUED)

    def _unsent(self, change: EntryChange, carried: set[int]) -> EntryChange:
        """Return an entry to the queue when the transaction it was sent with has just been
        withdrawn.
        """
        if change.state is SendState.SENT and change.entry_id not in carried:
            return EntryChange(entry_id=change.entry_id, state=SendState.QUEUED)
        return change

    def _must_withdraw(self, nonce: int, refused: set[int]) -> bool:
        return any(
            entry_id in refused for one in self._waiting(nonce) for entry_id in one.entry_ids
        )

    def _live(self, nonce: int) -> Transaction | None:
        """Return the transaction of a nonce that waits to be mined: the newest, which offers most."""
        return next(reversed(self._waiting(nonce)), None)

    def _again(self, newest: Transaction) -> Transaction:
        """Return which one of a nonce the node is to have again: the newest that it did not refuse,
        if there is one.

        It may refuse what offers more for good and have forgotten what it had taken before.
        """
        known = self.view.waiting
        fit = [
            one
            for one in self._waiting(newest.nonce)
            if one.hash not in known or not known[one.hash].refused
        ]
        return fit[-1] if fit else newest

    def _waiting(self, nonce: int) -> list[Transaction]:
        return [one for one in self.slots[nonce] if self._waits(one)]

    def _waits(self, transaction: Transaction) -> bool:
        """Return whether it is to be mined, and may be."""
        return transaction.nonce >= self.view.nonce and not transaction.withdrawn

    def _is_settled(self, nonce: int) -> bool:
        """Return whether a nonce needs no watch: its receipt is final, or the chain has a
        stranger's instead.
        """
        receipts = [
            self.view.receipts[one.hash]
            for one in self.slots[nonce]
            if one.hash in self.view.receipts
        ]
        if receipts:
            return all(self._is_final(receipt) for receipt in receipts)
        return nonce < self.view.nonce

    def _is_final(self, receipt: Receipt) -> bool:
        return self.view.head - receipt.block >= self.policy.confirmations

    def _is_stuck(self, transaction: Transaction) -> bool:
        waiting = self.view.waiting.get(transaction.hash)
        if waiting is None or self._is_dear(self._fees(transaction.nonce)):
            return False
        return waiting.underpriced or self.view.now - waiting.since >= self.policy.replace_after_s

    def _is_due(self, transaction: Transaction) -> bool:
        waiting = self.view.waiting.get(transaction.hash)
        return waiting is None or self.view.now - waiting.last >= self.policy.resend_after_s

    def _is_dear(self, fees: Fees) -> bool:
        now = self.view.fees
        return (
            fees.max_fee > self.policy.dearest * now.max_fee
            or fees.tip > self.policy.dearest * now.tip
        )

    def _fees(self, nonce: int) -> Fees:
        """Return what a further transaction of a nonce must offer."""
        used = [raised(one.fees) for one in self.slots.get(nonce, ())]
        return Fees(
            max_fee=max([self.view.fees.max_fee, *(fees.max_fee for fees in used)]),
            tip=max([self.view.fees.tip, *(fees.tip for fees in used)]),
        )
