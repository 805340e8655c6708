# SPDX-License-Identifier: Apache-2.0
"""The sender: takes the calls of a wallet's outbox to the chain, as the only writer of that wallet.

A transaction is stored before it is given to the node, so a crash on any line leaves either a call
that is still queued or signed bytes that the next tick sends. What to do is decided by
``domain.dispatch.plan``, twice: first to learn which calls would go out, then with what the chain
has against them. All that a tick signs is stored at once, and given to the node together: hundreds
of transactions cost as many writes to the store as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from gridstead.domain.batches import subject
from gridstead.domain.calls import Call, name_of
from gridstead.domain.dispatch import DispatchPolicy, Slot, TransactionPlan, plan_transactions
from gridstead.domain.sending import (
    ChainView,
    EntryChange,
    OutboxEntry,
    Refusal,
    Reply,
    SendState,
    Taken,
    Transaction,
    Waiting,
)
from gridstead.errors import ChainUnavailable, ConfigError, TransactionReverted
from gridstead.ports import Account, Clock, Ledger, Outbox, Transactions
from gridstead.services.chain_view import ChainViewReader, Work
from gridstead.services.failpoint import ignore

log = structlog.get_logger()

FIRST_REST_S = 60
LONGEST_REST_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """A call that the node refused is not sent before this time, Unix seconds, after a rest so
    long.
    """

    until: int
    span: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderPorts:
    """The ports a sender works through."""

    clock: Clock
    ledger: Ledger
    account: Account
    outbox: Outbox
    transactions: Transactions


class Sender:
    """Sends one wallet's calls.

    Args:
        ports: The outside world.
        policy: How patient it is.
        failpoint: Called with the name of each boundary (``transaction_stored``,
            ``transaction_sent``, ``receipt_seen``, ``outcome_stored``), for tests that crash there.
    """

    def __init__(
        self,
        ports: SenderPorts,
        policy: DispatchPolicy,
        *,
        failpoint: Callable[[str], None] = ignore,
    ) -> None:
        self._ports = ports
        self._policy = policy
        self._failpoint = failpoint
        self._chain_view = ChainViewReader(
            ports.clock, ports.ledger, ports.account, confirmations=policy.confirmations
        )
        self._waiting: dict[str, Waiting] = {}
        self._refusals: dict[int, Refusal] = {}
        self._rests: dict[str, _Rest] = {}
        self._last_look: tuple[int, int] | None = None  # when, and how high the chain was

    def tick(self) -> None:
        """Take every open call one step further.

        Raises:
            ChainUnavailable: The chain did not answer; what was stored is taken up by the next
                tick.
            ConfigError: The wallet cannot pay for its transactions.
        """
        ports = self._ports
        entries = self._rested(ports.transactions.next_entries(self._policy.queued))
        genesis = ports.ledger.block(0)
        if genesis is None:
            raise ChainUnavailable("could not read the chain's first block")
        name = f"{genesis.hash}/{ports.account.address}"
        transactions = ports.transactions.open_transactions(name)
        if not entries and not transactions:
            return
        work = Work(
            entries=entries,
            transactions=transactions,
            waiting=self._waiting,
            refusals=self._refusals,
        )
        view = self._chain_view.read(work)
        self._remember(view)
        view = self._chain_view.check(view, plan_transactions(view, self._policy))
        decided = plan_transactions(view, self._policy)
        self._store(name, decided)
        calls = {entry.id: entry.call for entry in entries}
        signed = [
            self._sign_again(slot, calls, room=view.gas_limit) for slot in decided.replacements
        ]
        signed += self._sign_batches(name, decided, view, calls)
        if signed:
            ports.transactions.add(name, *signed)
            self._failpoint("transaction_stored")
        self._send(name, sorted([*signed, *decided.resend], key=lambda one: one.nonce), view)

    def _rested(self, entries: Iterable[OutboxEntry]) -> tuple[OutboxEntry, ...]:
        """Return the entries without those that wait and whose like the node refused a short while
        ago.

        Each refusal costs a transaction that fills the nonce, and who wants the call asks for it
        again at once.
        """
        now = self._ports.clock.now()
        # A clock that was set back makes no rest longer.
        rests = {
            what: replace(rest, until=min(rest.until, now + rest.span))
            for what, rest in self._rests.items()
        }
        self._rests = {what: rest for what, rest in rests.items() if now < rest.until + rest.span}
        resting = {what for what, rest in self._rests.items() if now < rest.until}
        return tuple(
            one
            for one in entries
            if one.state is not SendState.QUEUED or _topic(one) not in resting
        )

    def _rest(self, entry: OutboxEntry) -> None:
        """Send nothing like this call for a while, for twice as long as the last time."""
        before = self._rests.get(_topic(entry))
        span = FIRST_REST_S if before is None else min(2 * before.span, LONGEST_REST_S)
        self._rests[_topic(entry)] = _Rest(until=self._ports.clock.now() + span, span=span)

    def _remember(self, view: ChainView) -> None:
        """Keep what is still of use of what this process knows of sending."""
        open_ids = {entry.id for entry in view.entries}
        for entry_id in self._refusals.keys() - open_ids:
            del self._refusals[entry_id]
        if view.receipts.keys() & self._waiting.keys():
            self._failpoint("receipt_seen")
        # What is in a block waits no more; if a reorg drops it, it is due at once.
        for tx in self._waiting.keys() - {
            one.hash for one in view.transactions if one.hash not in view.receipts
        }:
            del self._waiting[tx]
        self._set_the_clock(view.now, view.head)

    def _set_the_clock(self, now: int, head: int) -> None:
        """Count no waiting while no block comes, as a higher offer would not bring one, and none
        from the future.

        What waited when the clock was set back begins to wait anew.
        """
        last, self._last_look = self._last_look, (now, head)
        still = max(0, now - last[0]) if last is not None and last[1] == head else 0
        for tx, waiting in self._waiting.items():
            self._waiting[tx] = replace(
                waiting, since=min(now, waiting.since + still), last=min(now, waiting.last)
            )

    def _store(self, name: str, decided: TransactionPlan) -> None:
        if not (decided.changes or decided.withdrawn or decided.closed):
            return
        self._ports.transactions.record(
            name, changes=decided.changes, withdrawn=decided.withdrawn, closed=decided.closed
        )
        _tell(decided.changes)
        for nonce in decided.withdrawn:
            log.warning("transaction_withdrawn", nonce=nonce)
        self._failpoint("outcome_stored")

    def _sign_batches(
        self, name: str, decided: TransactionPlan, view: ChainView, calls: Mapping[int, Call]
    ) -> list[Transaction]:
        signed: list[Transaction] = []
        account = self._ports.account
        batches = [
            tuple(calls[entry_id] for entry_id in entry_ids) for entry_ids in decided.batches
        ]
        limits = account.gas(batches, room=view.gas_limit)
        for entry_ids, batch, gas in zip(decided.batches, batches, limits, strict=True):
            nonce = decided.next_nonce + len(signed)
            if not isinstance(gas, TransactionReverted):
                signed.append(
                    account.sign(batch, entry_ids=entry_ids, nonce=nonce, gas=gas, fees=view.fees)
                )
            elif nonce == view.nonce:
                # What waits to be mined may be what a call needs; only without it the answer is the
                # last word.
                self._reject(name, entry_ids, str(gas))
        return signed

    def _sign_again(self, slot: Slot, calls: Mapping[int, Call], *, room: int) -> Transaction:
        account = self._ports.account
        ids = tuple(entry_id for entry_id in slot.entry_ids if entry_id in calls)
        carried = tuple(calls[entry_id] for entry_id in ids)
        (gas,) = account.gas([carried], room=room)
        if isinstance(gas, TransactionReverted):
            # Refused as the chain stands; the nonce must be used up all the same. Its entries go
            # back to the queue.
            return self._sign_again(replace(slot, entry_ids=()), calls, room=room)
        return account.sign(carried, entry_ids=ids, nonce=slot.nonce, gas=gas, fees=slot.fees)

    def _reject(self, name: str, entry_ids: tuple[int, ...], reason: str) -> None:
        changes = [
            EntryChange(entry_id=one, state=SendState.REJECTED, reason=reason) for one in entry_ids
        ]
        self._ports.transactions.record(name, changes=changes, withdrawn=(), closed=())
        _tell(changes)

    def _send(self, name: str, transactions: Sequence[Transaction], view: ChainView) -> None:
        """Give stored transactions to the node and remember when.

        Raises:
            ChainUnavailable: The node has no room for one, or did not answer.
            ConfigError: The wallet cannot pay for the first of all that wait.
        """
        if not transactions:
            return
        now = self._ports.clock.now()
        replies = self._ports.account.send(transactions)
        self._failpoint("transaction_sent")
        answered = list(zip(transactions, replies, strict=True))
        for one, reply in answered:
            if reply.taken is Taken.POOR:
                continue
            before = self._waiting.get(one.hash, Waiting(since=now, last=now))
            # What there was no room for is due again at once, and after a while a higher offer
            # makes room for it.
            last = 0 if reply.taken is Taken.LATER else now
            self._waiting[one.hash] = replace(
                before,
                last=last,
                underpriced=reply.taken is Taken.UNDERPRICED,
                refused=reply.taken is Taken.REFUSED,
            )
        self._mark_sent(name, [one for one, reply in answered if reply.taken is Taken.TAKEN], now)
        self._put_aside(
            name, [(one, reply) for one, reply in answered if reply.taken is Taken.REFUSED], view
        )
        for one, reply in answered:
            # A later one that cannot be paid for waits until those before it are, for less than
            # they may cost.
            if reply.taken is Taken.LATER or (reply.taken is Taken.POOR and one.nonce > view.first):
                raise ChainUnavailable(
                    "could not send a transaction", detail=f'the node says: "{reply.words}"'
                )
            if reply.taken is Taken.POOR:
                what, hint = (
                    f"transactions of {self._ports.account.address}",
                    "Send coins of the chain to the wallet.",
                )
                raise ConfigError(f"cannot pay for {what}", detail=f'"{reply.words}"', hint=hint)

    def _mark_sent(self, name: str, taken: Iterable[Transaction], now: int) -> None:
        new = [one for one in taken if one.sent_at is None]
        if not new:
            return
        self._ports.transactions.mark_sent(name, [one.hash for one in new], sent_at=now)
        for one in new:
            log.info("transaction_sent", tx=one.hash, nonce=one.nonce, calls=len(one.entry_ids))

    def _put_aside(
        self, name: str, refused: Iterable[tuple[Transaction, Reply]], view: ChainView
    ) -> None:
        """Withdraw what the node will not have; the next tick fills its nonce and sends its calls
        in other company.

        Where it had taken one of the nonce before, that may be mined yet, and what carries no call
        has nothing to give back: they are only given to the node again, and replaced in time. What
        is refused alone is rejected, and its like rests.
        """
        entries = {entry.id: entry for entry in view.entries}
        sent = {one.nonce for one in view.transactions if one.sent_at is not None}
        nonces = []
        for one, reply in refused:
            calls = len(one.entry_ids)
            log.warning(
                "transaction_refused", tx=one.hash, nonce=one.nonce, calls=calls, reason=reply.words
            )
            if one.nonce not in sent and calls:
                self._refusals |= dict.fromkeys(
                    one.entry_ids, Refusal(calls=calls, words=reply.words)
                )
                nonces.append(one.nonce)
                if calls == 1 and one.entry_ids[0] in entries:
                    self._rest(entries[one.entry_ids[0]])
        if nonces:
            self._ports.transactions.record(name, changes=(), withdrawn=nonces, closed=())


def _topic(entry: OutboxEntry) -> str:
    """Return what an entry is about: its key, but the kind of those calls whose keys are new with
    each block.
    """
    return entry.key if subject(entry.call) else name_of(entry.call)


def _tell(changes: Iterable[EntryChange]) -> None:
    final = 0
    for change in changes:
        final += change.state is SendState.FINAL
        if change.state is SendState.REJECTED:
            log.warning("call_rejected", entry=change.entry_id, reason=change.reason)
    if final:
        log.info("calls_finished", calls=final)
