# SPDX-License-Identifier: Apache-2.0
"""The sender sends the calls of a wallet's outbox to the chain, as the only writer of that wallet.

A service puts the calls into the outbox: the supervisor performs ``domain.supervisor.actions.Put``,
the meta-scheduler calls ``Outbox.put_all`` itself. ``Sender.tick`` picks them up.

A transaction is stored before it is given to the node. After a crash on any line, a call is
therefore either still queued, or part of a signed transaction that the next tick sends.
``domain.dispatch.plan_transactions`` decides what to do and runs twice in a tick: the first plan
names the calls that would be sent, the second one knows the chain's objections to them. All
transactions of a tick are stored in one write and given to the node in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from gridstead.domain.transactions.calls import Call, name_of, subject
from gridstead.domain.transactions.dispatch import (
    DispatchPolicy,
    Slot,
    TransactionPlan,
    plan_transactions,
)
from gridstead.domain.transactions.outbox import (
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
from gridstead.services.failpoint import ignore
from gridstead.services.transactions.chain_view import ChainViewReader, OutboxSnapshot

log = structlog.get_logger()

FIRST_BACKOFF_S = 60
LONGEST_BACKOFF_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class _Backoff:
    """How long a refused call waits before it is sent again.

    Attributes:
        until: End of the backoff, Unix seconds.
        span: Length of the backoff, seconds.
    """

    until: int
    span: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderPorts:
    """The ports that a sender uses."""

    clock: Clock
    ledger: Ledger
    account: Account
    outbox: Outbox
    transactions: Transactions


class Sender:
    """Sends one wallet's calls.

    Args:
        ports: The ports to use.
        policy: Limits and timeouts of sending.
        failpoint: Called with the name of each failpoint: ``transaction_stored``,
            ``transaction_sent``, ``receipt_seen`` and ``outcome_stored``.
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
        self._backoffs: dict[str, _Backoff] = {}
        self._last_head: tuple[int, int] | None = None  # (Unix seconds, height) of the last view

    def tick(self) -> None:
        """Advance every open call by one step.

        Raises:
            ChainUnavailable: If the chain did not answer. The next tick continues with what is
                stored.
            ConfigError: If the wallet cannot pay for its transactions.
        """
        ports = self._ports
        entries = self._without_backoff(ports.transactions.next_entries(self._policy.max_queued))
        genesis = ports.ledger.block(0)
        if genesis is None:
            raise ChainUnavailable("could not read the chain's first block")
        account_name = f"{genesis.hash}/{ports.account.address}"
        transactions = ports.transactions.open_transactions(account_name)
        if not entries and not transactions:
            return
        snapshot = OutboxSnapshot(
            entries=entries,
            transactions=transactions,
            waiting=self._waiting,
            refusals=self._refusals,
        )
        view = self._chain_view.read(snapshot)
        self._forget(view)
        view = self._chain_view.check(view, plan_transactions(view, self._policy))
        plan = plan_transactions(view, self._policy)
        self._store(account_name, plan)
        signed = self._sign(account_name, plan, view)
        if signed:
            ports.transactions.add(account_name, *signed)
            self._failpoint("transaction_stored")
        to_send = sorted([*signed, *plan.resend], key=lambda transaction: transaction.nonce)
        self._send(account_name, to_send, view)

    def _without_backoff(self, entries: Iterable[OutboxEntry]) -> tuple[OutboxEntry, ...]:
        """Return the entries without queued calls that must wait after a refusal.

        Each refusal costs a transaction that fills the nonce, and services request a refused call
        again at once.
        """
        now = self._ports.clock.now()
        waiting: set[str] = set()
        for key, backoff in list(self._backoffs.items()):
            # Setting the clock back must not extend a backoff.
            until = min(backoff.until, now + backoff.span)
            if now >= until + backoff.span:
                del self._backoffs[key]
                continue
            self._backoffs[key] = replace(backoff, until=until)
            if now < until:
                waiting.add(key)
        return tuple(entry for entry in entries if not _must_wait(entry, waiting))

    def _back_off(self, entry: OutboxEntry) -> None:
        """Delay calls of this backoff key, for twice as long as the last time."""
        key = _backoff_key(entry)
        before = self._backoffs.get(key)
        span = FIRST_BACKOFF_S if before is None else min(2 * before.span, LONGEST_BACKOFF_S)
        self._backoffs[key] = _Backoff(until=self._ports.clock.now() + span, span=span)

    def _forget(self, view: ChainView) -> None:
        """Forget what is of no more use about entries and transactions."""
        open_ids = {entry.id for entry in view.entries}
        for entry_id in self._refusals.keys() - open_ids:
            del self._refusals[entry_id]
        if view.receipts.keys() & self._waiting.keys():
            self._failpoint("receipt_seen")
        # A mined transaction no longer waits. If a reorg drops it, it is due at once.
        unmined = {transaction.hash for transaction in view.transactions} - view.receipts.keys()
        for tx in self._waiting.keys() - unmined:
            del self._waiting[tx]
        self._adjust_waiting_times(view.now, view.head)

    def _adjust_waiting_times(self, now: int, head: int) -> None:
        """Leave the time without a new block out of the waiting times.

        A higher fee does not help while the chain has no new blocks. After the clock was set back,
        a waiting time that starts in the future starts now.
        """
        last, self._last_head = self._last_head, (now, head)
        time_without_block = 0
        if last is not None and last[1] == head:
            time_without_block = max(0, now - last[0])
        for tx, waiting in self._waiting.items():
            since = min(now, waiting.since + time_without_block)
            self._waiting[tx] = replace(waiting, since=since, last=min(now, waiting.last))

    def _store(self, account_name: str, plan: TransactionPlan) -> None:
        if not (plan.changes or plan.withdrawn or plan.closed):
            return
        self._ports.transactions.record(
            account_name, changes=plan.changes, withdrawn=plan.withdrawn, closed=plan.closed
        )
        _log_changes(plan.changes)
        for nonce in plan.withdrawn:
            log.warning("transaction_withdrawn", nonce=nonce)
        self._failpoint("outcome_stored")

    def _sign(self, account_name: str, plan: TransactionPlan, view: ChainView) -> list[Transaction]:
        calls = {entry.id: entry.call for entry in view.entries}
        room = view.gas_limit
        signed = [self._sign_replacement(slot, calls, room=room) for slot in plan.replacements]
        return signed + self._sign_batches(account_name, plan, view, calls)

    def _sign_replacement(self, slot: Slot, calls: Mapping[int, Call], *, room: int) -> Transaction:
        account = self._ports.account
        entry_ids = tuple(entry_id for entry_id in slot.entry_ids if entry_id in calls)
        batch = _calls_of(entry_ids, calls)
        (gas,) = account.gas([batch], room=room)
        if isinstance(gas, TransactionReverted):
            # The contract would revert the calls now, but the nonce must be used. The entries
            # return to the queue.
            return self._sign_replacement(replace(slot, entry_ids=()), calls, room=room)
        return account.sign(batch, entry_ids=entry_ids, nonce=slot.nonce, gas=gas, fees=slot.fees)

    def _sign_batches(
        self,
        account_name: str,
        plan: TransactionPlan,
        view: ChainView,
        calls: Mapping[int, Call],
    ) -> list[Transaction]:
        signed: list[Transaction] = []
        account = self._ports.account
        batches = [_calls_of(entry_ids, calls) for entry_ids in plan.batches]
        limits = account.gas(batches, room=view.gas_limit)
        for entry_ids, batch, gas in zip(plan.batches, batches, limits, strict=True):
            nonce = plan.next_nonce + len(signed)
            if not isinstance(gas, TransactionReverted):
                signed.append(
                    account.sign(batch, entry_ids=entry_ids, nonce=nonce, gas=gas, fees=view.fees)
                )
            elif nonce == view.nonce:
                # A call may depend on a transaction that waits to be mined. The answer is final
                # only if no transaction waits.
                self._reject(account_name, entry_ids, str(gas))
        return signed

    def _reject(self, account_name: str, entry_ids: tuple[int, ...], reason: str) -> None:
        state = SendState.REJECTED
        changes = [EntryChange(entry_id=i, state=state, reason=reason) for i in entry_ids]
        self._ports.transactions.record(account_name, changes=changes, withdrawn=(), closed=())
        _log_changes(changes)

    def _send(
        self, account_name: str, transactions: Sequence[Transaction], view: ChainView
    ) -> None:
        """Give stored transactions to the node and remember when.

        Raises:
            ChainUnavailable: If the node has no room for a transaction, or did not answer.
            ConfigError: If the wallet cannot pay for its first waiting transaction.
        """
        if not transactions:
            return
        now = self._ports.clock.now()
        replies = self._ports.account.send(transactions)
        self._failpoint("transaction_sent")
        taken: list[Transaction] = []
        refused: list[tuple[Transaction, Reply]] = []
        for transaction, reply in zip(transactions, replies, strict=True):
            self._note_waiting(transaction, reply, now)
            if reply.taken is Taken.TAKEN:
                taken.append(transaction)
            elif reply.taken is Taken.REFUSED:
                refused.append((transaction, reply))
        self._mark_sent(account_name, taken, now)
        self._withdraw_refused(account_name, refused, view)
        for transaction, reply in zip(transactions, replies, strict=True):
            self._check_reply(transaction, reply, first_nonce=view.first_free_nonce)

    def _note_waiting(self, transaction: Transaction, reply: Reply, now: int) -> None:
        if reply.taken is Taken.POOR:
            return
        before = self._waiting.get(transaction.hash, Waiting(since=now, last=now))
        # A transaction that the node had no room for is due again at once. A higher fee makes room
        # for it later.
        last = 0 if reply.taken is Taken.LATER else now
        self._waiting[transaction.hash] = replace(
            before,
            last=last,
            underpriced=reply.taken is Taken.UNDERPRICED,
            refused=reply.taken is Taken.REFUSED,
        )

    def _check_reply(self, transaction: Transaction, reply: Reply, *, first_nonce: int) -> None:
        """Raise an error if the node had no room for a transaction or the wallet cannot pay.

        Only the first waiting transaction shows that the wallet cannot pay: a node counts the max
        fees of all transactions, and the actual costs are lower.
        """
        is_later = transaction.nonce > first_nonce
        if reply.taken is Taken.LATER or (reply.taken is Taken.POOR and is_later):
            raise ChainUnavailable(
                "could not send a transaction", detail=f'the node replied: "{reply.words}"'
            )
        if reply.taken is Taken.POOR:
            raise ConfigError(
                f"cannot pay for transactions of {self._ports.account.address}",
                detail=f'"{reply.words}"',
                hint="Send coins of the chain to the wallet.",
            )

    def _mark_sent(self, account_name: str, taken: Iterable[Transaction], now: int) -> None:
        new = [transaction for transaction in taken if transaction.sent_at is None]
        if not new:
            return
        hashes = [transaction.hash for transaction in new]
        self._ports.transactions.mark_sent(account_name, hashes, sent_at=now)
        for transaction in new:
            log.info(
                "transaction_sent",
                tx=transaction.hash,
                nonce=transaction.nonce,
                calls=len(transaction.entry_ids),
            )

    def _withdraw_refused(
        self, account_name: str, refused: Iterable[tuple[Transaction, Reply]], view: ChainView
    ) -> None:
        """Withdraw the transactions that the node refused.

        The next tick fills their nonces and sends their calls in other batches. A transaction is
        not withdrawn if the node has already taken another one of its nonce, because that one may
        still be mined, or if it has no calls. Such a transaction is sent again and replaced after a
        while. A call that is refused in a batch of its own is rejected and backs off.
        """
        entries = {entry.id: entry for entry in view.entries}
        sent_nonces: set[int] = set()
        for transaction in view.transactions:
            if transaction.sent_at is not None:
                sent_nonces.add(transaction.nonce)
        withdrawn: list[int] = []
        for transaction, reply in refused:
            tx, nonce, entry_ids = transaction.hash, transaction.nonce, transaction.entry_ids
            calls = len(entry_ids)
            log.warning("transaction_refused", tx=tx, nonce=nonce, calls=calls, reason=reply.words)
            if nonce in sent_nonces or not calls:
                continue
            refusal = Refusal(calls=calls, words=reply.words)
            self._refusals |= dict.fromkeys(entry_ids, refusal)
            withdrawn.append(nonce)
            if calls == 1 and entry_ids[0] in entries:
                self._back_off(entries[entry_ids[0]])
        if withdrawn:
            self._ports.transactions.record(
                account_name, changes=(), withdrawn=withdrawn, closed=()
            )


def _must_wait(entry: OutboxEntry, backoff_keys: Collection[str]) -> bool:
    return entry.state is SendState.QUEUED and _backoff_key(entry) in backoff_keys


def _calls_of(entry_ids: Iterable[int], calls: Mapping[int, Call]) -> tuple[Call, ...]:
    return tuple(calls[entry_id] for entry_id in entry_ids)


def _backoff_key(entry: OutboxEntry) -> str:
    """Return the key under which refusals of a call back off.

    This is the key of the entry, or the kind of the call if the entry's key is new in each block.
    """
    return entry.key if subject(entry.call) else name_of(entry.call)


def _log_changes(changes: Iterable[EntryChange]) -> None:
    final = 0
    for change in changes:
        if change.state is SendState.FINAL:
            final += 1
        if change.state is SendState.REJECTED:
            log.warning("call_rejected", entry=change.entry_id, reason=change.reason)
    if final:
        log.info("calls_finished", calls=final)
