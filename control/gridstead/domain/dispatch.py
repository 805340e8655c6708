# SPDX-License-Identifier: Apache-2.0
"""What the sender of a wallet does next: one pure function over one look at chain and outbox.

An entry's state follows from the transactions that carry it: done if one of them succeeded, on its way if one may
still be mined, queued otherwise. A nonce is *open* until one of its transactions has enough confirmations. A nonce
whose transactions are all withdrawn, or that has none below one that has, is a gap and is filled with a transaction
that does nothing: nothing behind a gap can be mined, and a withdrawn transaction must not be what fills it.

A transaction that the node refuses is withdrawn, and its calls go again in batches of half the size: what is refused
alone is rejected, and holds up no other call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gridstead.domain.batches import pack, subject
from gridstead.domain.calls import Call, Match, Refuse
from gridstead.domain.job import Job
from gridstead.domain.lifecycle import COLD, JobState
from gridstead.domain.sending import EntryChange, Fees, OutboxEntry, Receipt, Refusal, SendState, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the sender goes about it.

    Attributes:
        confirmations: Blocks on top of a transaction's own that make it final.
        batch: Most calls in one transaction.
        in_flight: Most nonces that wait to be mined.
        resend_after_s: A transaction that waits is given to the node again so often.
        replace_after_s: A transaction that waited so long, while blocks came, is replaced by one that offers more.
        dearest: No replacement offers more than so many times what a transaction should offer now.
        gas_share: A batch may use a block's gas divided by this.
    """

    confirmations: int
    batch: int = 50
    in_flight: int = 16
    resend_after_s: int = 10
    replace_after_s: int = 45
    dearest: int = 10
    gas_share: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """When this process gave a transaction to the node: first and last time since it was in no block. Unix seconds.

    ``since`` is moved on by the time in which no block came.
    """

    since: int
    last: int
    underpriced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one decision is made of.

    Attributes:
        now: Unix seconds.
        head: Height of the newest block; the chain below is as of this block.
        nonce: The wallet's next nonce there.
        entries: Open outbox entries, oldest first.
        transactions: Those of open nonces, by nonce and then age.
        receipts: By hash, of those transactions that are in a block.
        objections: By entry id, why a call that is not mined must not be made any more.
        waiting: By hash, what this process remembers of sending.
        fees: What a transaction should offer now.
        gas_limit: Of the newest block.
        gas: By entry id, what the call adds to a batch at most; 0 if it is never in one with others.
        refusals: By entry id, the last refusal of a transaction with it that this process saw.
    """

    now: int
    head: int
    nonce: int
    entries: tuple[OutboxEntry, ...]
    transactions: tuple[Transaction, ...]
    receipts: Mapping[str, Receipt]
    objections: Mapping[int, str]
    waiting: Mapping[str, Waiting]
    fees: Fees
    gas_limit: int
    gas: Mapping[int, int]
    refusals: Mapping[int, Refusal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A nonce to be signed for: with these entries, or to no effect if there are none."""

    nonce: int
    entry_ids: tuple[int, ...]
    fees: Fees


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do, in this order.

    Attributes:
        changes: New states of entries.
        withdrawn: Nonces whose transactions must never be sent again.
        closed: Nonces that are settled for good.
        replacements: Nonces to be signed for again: gaps and transactions that are stuck.
        resend: Transactions to be given to the node (again), by nonce.
        batches: Entry ids to be sent together, in this order, each under a nonce of its own from ``next_nonce`` on.
    """

    changes: tuple[EntryChange, ...] = ()
    withdrawn: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()
    replacements: tuple[Slot, ...] = ()
    resend: tuple[Transaction, ...] = ()
    batches: tuple[tuple[int, ...], ...] = ()
    next_nonce: int = 0


def objection(call: Call, job: Job | None, *, wallet: str) -> str:
    """Return why a call must not be sent to the chain as it is now, empty if nothing is against it.

    Args:
        call: A call that is in no block.
        job: The chain's job of the call's number, at the newest block; None if there is none.
        wallet: The sender, lower case.
    """
    proof = subject(call)
    if proof is None:
        return ""
    if job is None:
        return "there is no such job any more"
    if job.proof != proof:
        return "the job's number belongs to another job now"
    if isinstance(call, Match):
        return "" if job.state is JobState.PENDING else f"the job is {job.state.name}"
    if job.provider != wallet:
        return "the job belongs to another provider now"
    if job.state in COLD or (isinstance(call, Refuse) and job.state is JobState.RUNNING):
        return f"the job is {job.state.name}"
    return ""


def raised(fees: Fees) -> Fees:
    """Return fees that a node accepts for a replacement: an eighth more, rounded up."""
    return Fees(max_fee=fees.max_fee + fees.max_fee // 8 + 1, tip=fees.tip + fees.tip // 8 + 1)


def plan(view: View, policy: Policy) -> Plan:
    """Return what the sender does next."""
    return _Planner(view, policy).plan()


@dataclass(slots=True)
class _Planner:
    view: View
    policy: Policy
    slots: dict[int, list[Transaction]] = field(default_factory=dict)
    carriers: dict[int, list[Transaction]] = field(default_factory=dict)

    def plan(self) -> Plan:
        slots, carriers = defaultdict(list), defaultdict(list)
        for transaction in self.view.transactions:
            slots[transaction.nonce].append(transaction)
            for entry_id in transaction.entry_ids:
                carriers[entry_id].append(transaction)
        self.slots, self.carriers = dict(slots), dict(carriers)

        states = {entry.id: self._state(entry) for entry in self.view.entries}
        refused = {change.entry_id for change in states.values() if change.state is SendState.REJECTED}
        withdrawn = tuple(nonce for nonce in sorted(self.slots) if self._must_withdraw(nonce, refused))
        live = {n: one for n in sorted(self.slots) if n not in withdrawn and (one := self._live(n)) is not None}
        carried = {entry_id for one in live.values() for entry_id in one.entry_ids}
        states = {i: self._unsent(change, carried) for i, change in states.items()}

        top = max([self.view.nonce, *(nonce + 1 for nonce in self.slots if nonce >= self.view.nonce)])
        gaps = [n for n in range(self.view.nonce, top) if n not in live]
        stuck = {one.hash for one in live.values() if self._is_stuck(one)}
        room = max(0, self.policy.in_flight - (top - self.view.nonce))
        queued = (entry for entry in self.view.entries if states[entry.id].state is SendState.QUEUED)
        return Plan(
            changes=tuple(states[e.id] for e in self.view.entries if states[e.id].state is not e.state),
            withdrawn=tuple(n for n in withdrawn if not all(one.withdrawn for one in self.slots[n])),
            closed=tuple(nonce for nonce in sorted(self.slots) if self._is_settled(nonce)),
            replacements=(
                *(Slot(nonce=nonce, entry_ids=(), fees=self._fees(nonce)) for nonce in gaps),
                *(
                    Slot(nonce=one.nonce, entry_ids=one.entry_ids, fees=self._fees(one.nonce))
                    for one in live.values()
                    if one.hash in stuck
                ),
            ),
            resend=tuple(one for one in live.values() if one.hash not in stuck and self._is_due(one)),
            batches=tuple(self._pack(queued))[:room],
            next_nonce=top,
        )

    def _pack(self, queued: Iterable[OutboxEntry]) -> Iterator[tuple[int, ...]]:
        view = self.view
        limit = view.gas_limit // self.policy.gas_share
        return pack(queued, most=self.policy.batch, gas_limit=limit, gas=view.gas, refusals=view.refusals)

    def _state(self, entry: OutboxEntry) -> EntryChange:
        """Return what became of an entry, as far as blocks and objections say."""
        mined = [self.view.receipts[t.hash] for t in self.carriers.get(entry.id, ()) if t.hash in self.view.receipts]
        proof = subject(entry.call)
        number = proof.job_id.number if proof else -1
        for receipt in mined:
            if receipt.succeeded and number not in receipt.skipped:
                state = SendState.FINAL if self._is_final(receipt) else SendState.MINED
                return EntryChange(entry_id=entry.id, state=state)
        if any(self._may_be_mined(one) and not one.withdrawn for one in self.carriers.get(entry.id, ())):
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
        """Return an entry to the queue when the transaction it was sent with has just been withdrawn."""
        if change.state is SendState.SENT and change.entry_id not in carried:
            return EntryChange(entry_id=change.entry_id, state=SendState.QUEUED)
        return change

    def _must_withdraw(self, nonce: int, refused: set[int]) -> bool:
        sendable = [one for one in self.slots[nonce] if self._may_be_mined(one) and not one.withdrawn]
        return any(entry_id in refused for one in sendable for entry_id in one.entry_ids)

    def _live(self, nonce: int) -> Transaction | None:
        """Return the transaction of a nonce that waits to be mined: the newest, which offers most."""
        waiting = [one for one in self.slots[nonce] if self._may_be_mined(one) and not one.withdrawn]
        return waiting[-1] if waiting else None

    def _may_be_mined(self, transaction: Transaction) -> bool:
        return transaction.nonce >= self.view.nonce

    def _is_settled(self, nonce: int) -> bool:
        """Return whether a nonce needs no watch: its receipt is final, or the chain has a stranger's instead."""
        receipts = [self.view.receipts[one.hash] for one in self.slots[nonce] if one.hash in self.view.receipts]
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
        return fees.max_fee > self.policy.dearest * now.max_fee or fees.tip > self.policy.dearest * now.tip

    def _fees(self, nonce: int) -> Fees:
        """Return what a further transaction of a nonce must offer."""
        used = [raised(one.fees) for one in self.slots.get(nonce, ())]
        return Fees(
            max_fee=max([self.view.fees.max_fee, *(fees.max_fee for fees in used)]),
            tip=max([self.view.fees.tip, *(fees.tip for fees in used)]),
        )
