# SPDX-License-Identifier: Apache-2.0
"""The sender sends the calls of a wallet's outbox to the chain. No other service uses the wallet.

Services put calls into the outbox: the supervisor performs ``domain.supervisor.actions.Put``, the
meta-scheduler calls ``Outbox.put_all``. ``Sender.tick`` reads the open calls.

A transaction is stored before it is sent to the node. After a crash on any line, a call is
therefore either still queued, or part of a signed transaction that the next tick sends.

``domain.transactions.dispatch.plan_transactions`` decides what to do. A tick calls this function
twice. The first plan determines the calls that would be sent. Then the chain is read to find
*objections*: reasons why one of these calls must not be sent any more. The second plan takes the
objections into account. All transactions of a tick are stored in one write and sent to the node in
one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from gridstead.domain.transactions.calls import Call
from gridstead.domain.transactions.dispatch import plan_transactions
from gridstead.domain.transactions.outbox import (
    ChainView,
    EntryChange,
    NodeRefusal,
    PendingStatus,
    Reply,
    SendResult,
    SendState,
    SkippedCall,
    Transaction,
)
from gridstead.domain.transactions.plan import DispatchPolicy, TransactionPlan, UnsignedTransaction
from gridstead.errors import ChainUnavailable, ConfigError, TransactionReverted
from gridstead.ports import Account, Clock, Ledger, Transactions
from gridstead.services.failpoint import ignore
from gridstead.services.transactions.backoff import Backoffs
from gridstead.services.transactions.chain_view import ChainViewReader, OutboxSnapshot

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderPorts:
    """The ports that a sender uses."""

    clock: Clock
    ledger: Ledger
    account: Account
    transactions: Transactions


class Sender:
    """Sends the calls of one wallet's outbox.

    Args:
        ports: The ports to use.
        policy: Limits and timeouts of sending.
        failpoint: Called with the name of each failpoint: ``transaction_stored``,
            ``transaction_sent``, ``receipt_seen`` and ``outcome_stored``.
        on_skipped: Called with each call that the contract skipped, after the rejection of the call
            is stored. After a crash between the two, the function is not called.
    """

    def __init__(
        self,
        ports: SenderPorts,
        policy: DispatchPolicy,
        *,
        failpoint: Callable[[str], None] = ignore,
        on_skipped: Callable[[SkippedCall], object] = lambda _: None,
    ) -> None:
        self._ports = ports
        self._policy = policy
        self._failpoint = failpoint
        self._on_skipped = on_skipped
        self._view_reader = ChainViewReader(
            ports.clock, ports.ledger, ports.account, confirmations=policy.confirmations
        )
        self._statuses: dict[str, PendingStatus] = {}
        self._refusals: dict[int, NodeRefusal] = {}
        self._backoffs = Backoffs()
        self._last_head: tuple[int, int] | None = None  # (Unix seconds, height) of the last view

    def tick(self) -> None:
        """Advance every open call by one step.

        Raises:
            ChainUnavailable: If the chain did not answer. The next tick continues from the stored
                state.
            ConfigError: If the wallet cannot pay for its transactions.
        """
        ports = self._ports
        next_entries = ports.transactions.next_entries(self._policy.max_queued)
        entries = self._backoffs.without_delayed(next_entries, ports.clock.now())
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
            statuses=self._statuses,
            refusals=self._refusals,
        )
        view = self._view_reader.read(snapshot)
        self._forget_mined_and_closed(view)
        first_plan = plan_transactions(view, self._policy)
        view = self._view_reader.with_objections(view, first_plan)
        plan = plan_transactions(view, self._policy)
        self._store(account_name, plan, view)
        signed_transactions = self._sign(account_name, plan, view)
        if signed_transactions:
            ports.transactions.add(account_name, *signed_transactions)
            self._failpoint("transaction_stored")
        transactions_to_send = sorted(
            [*signed_transactions, *plan.to_send], key=lambda transaction: transaction.nonce
        )
        self._send(account_name, transactions_to_send, view)

    def _forget_mined_and_closed(self, view: ChainView) -> None:
        """Forget the refusals of closed entries and the waiting times of mined transactions."""
        open_ids = {entry.id for entry in view.entries}
        for entry_id in self._refusals.keys() - open_ids:
            del self._refusals[entry_id]
        if view.receipts.keys() & self._statuses.keys():
            self._failpoint("receipt_seen")
        # The waiting time of a mined transaction is forgotten. So if a reorg removes the
        # transaction from the chain, it is sent again at once.
        open_hashes = {transaction.hash for transaction in view.transactions}
        unmined_hashes = open_hashes - view.receipts.keys()
        for tx_hash in self._statuses.keys() - unmined_hashes:
            del self._statuses[tx_hash]
        self._adjust_waiting_times(view.now, view.head)

    def _adjust_waiting_times(self, now: int, head: int) -> None:
        """Exclude the time without a new block from the waiting times.

        Higher fees do not help while the chain has no new blocks. If the clock was set back, times
        in the future are set to now.
        """
        time_without_block_s = 0
        if self._last_head is not None:
            last_time, last_height = self._last_head
            if last_height == head:
                time_without_block_s = max(0, now - last_time)
        self._last_head = (now, head)
        for tx_hash, status in self._statuses.items():
            self._statuses[tx_hash] = replace(
                status,
                waiting_since=min(now, status.waiting_since + time_without_block_s),
                last_sent_at=min(now, status.last_sent_at),
            )

    def _store(self, account_name: str, plan: TransactionPlan, view: ChainView) -> None:
        if not (plan.changes or plan.withdrawn_nonces or plan.closed_nonces):
            return
        # Before the entries close: once they are closed, other matches of these jobs may be stored.
        self._report_skipped(plan.changes, view)
        self._ports.transactions.record(
            account_name,
            changes=plan.changes,
            withdrawn_nonces=plan.withdrawn_nonces,
            closed_nonces=plan.closed_nonces,
        )
        _log_changes(plan.changes)
        for nonce in plan.withdrawn_nonces:
            log.warning("transaction_withdrawn", nonce=nonce)
        self._failpoint("outcome_stored")

    def _report_skipped(self, changes: Iterable[EntryChange], view: ChainView) -> None:
        entries = {entry.id: entry for entry in view.entries}
        for change in changes:
            if change.is_skipped:
                entry = entries[change.entry_id]
                skipped_call = SkippedCall(
                    call=entry.call,
                    error=change.reason,
                    requested_at=entry.created_at,
                    seen_at=view.now,
                )
                self._on_skipped(skipped_call)

    def _sign(self, account_name: str, plan: TransactionPlan, view: ChainView) -> list[Transaction]:
        """Sign the plan's replacements and batches. Reject batches that the contract refuses."""
        calls = {entry.id: entry.call for entry in view.entries}
        gas_limit = view.gas_limit
        signed_transactions = [
            self._sign_replacement(replacement, calls, available_gas=gas_limit)
            for replacement in plan.replacements
        ]
        return signed_transactions + self._sign_batches(account_name, plan, view, calls)

    def _sign_replacement(
        self, replacement: UnsignedTransaction, calls: Mapping[int, Call], *, available_gas: int
    ) -> Transaction:
        """Sign a transaction with the replacement's calls, or an empty one if they would revert."""
        account = self._ports.account
        entry_ids = tuple(entry_id for entry_id in replacement.entry_ids if entry_id in calls)
        batch = _calls_of(entry_ids, calls)
        (gas_or_revert,) = account.gas([batch], available_gas=available_gas)
        if isinstance(gas_or_revert, TransactionReverted):
            # An empty transaction uses the nonce. The entries return to the queue.
            empty_replacement = replace(replacement, entry_ids=())
            return self._sign_replacement(empty_replacement, calls, available_gas=available_gas)
        return account.sign(
            batch,
            entry_ids=entry_ids,
            nonce=replacement.nonce,
            gas=gas_or_revert,
            fees=replacement.fees,
        )

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
        # The gas limit of each batch, or the revert of a batch that the contract would refuse.
        results = account.gas(batches, available_gas=view.gas_limit)
        for entry_ids, batch, gas_or_revert in zip(plan.batches, batches, results, strict=True):
            nonce = plan.next_nonce + len(signed)
            if not isinstance(gas_or_revert, TransactionReverted):
                transaction = account.sign(
                    batch, entry_ids=entry_ids, nonce=nonce, gas=gas_or_revert, fees=view.fees
                )
                signed.append(transaction)
            elif nonce == view.certain_nonce:
                # No other transaction is pending, so nothing can make the calls succeed. While
                # another transaction is pending, the calls are tried again in the next tick.
                self._reject(account_name, entry_ids, str(gas_or_revert))
        return signed

    def _reject(self, account_name: str, entry_ids: tuple[int, ...], reason: str) -> None:
        state = SendState.REJECTED
        changes = [
            EntryChange(entry_id=entry_id, state=state, reason=reason) for entry_id in entry_ids
        ]
        self._ports.transactions.record(
            account_name, changes=changes, withdrawn_nonces=(), closed_nonces=()
        )
        _log_changes(changes)

    def _send(
        self, account_name: str, transactions: Sequence[Transaction], view: ChainView
    ) -> None:
        """Send stored transactions to the node, and record how the node answered.

        Raises:
            ChainUnavailable: If the node is busy, its pool is full, or it did not answer.
            ConfigError: If the wallet cannot pay for its first pending transaction.
        """
        if not transactions:
            return
        now = self._ports.clock.now()
        replies = self._ports.account.send(transactions)
        self._failpoint("transaction_sent")
        accepted_transactions: list[Transaction] = []
        refused_transactions: list[tuple[Transaction, Reply]] = []
        for transaction, reply in zip(transactions, replies, strict=True):
            self._update_status(transaction, reply, now)
            if reply.result is SendResult.ACCEPTED:
                accepted_transactions.append(transaction)
            elif reply.result is SendResult.REFUSED:
                refused_transactions.append((transaction, reply))
        self._mark_sent(account_name, accepted_transactions, now)
        self._withdraw_refused(account_name, refused_transactions, view)
        for transaction, reply in zip(transactions, replies, strict=True):
            self._check_reply(transaction, reply, first_nonce=view.first_free_nonce)

    def _update_status(self, transaction: Transaction, reply: Reply, now: int) -> None:
        if reply.result is SendResult.CANNOT_PAY:
            return
        status = self._statuses.get(
            transaction.hash, PendingStatus(waiting_since=now, last_sent_at=now)
        )
        # A transaction that the node did not accept yet is sent again in the next tick. If the
        # node's pool stays full, the fees are raised after a while.
        last_sent_at = 0 if reply.result is SendResult.RETRY_LATER else now
        self._statuses[transaction.hash] = replace(
            status,
            last_sent_at=last_sent_at,
            underpriced=reply.result is SendResult.UNDERPRICED,
            refused=reply.result is SendResult.REFUSED,
        )

    def _check_reply(self, transaction: Transaction, reply: Reply, *, first_nonce: int) -> None:
        """Raise an error if a transaction must be sent later or the wallet cannot pay for it.

        If a transaction follows another pending one, the node may wrongly answer that the wallet
        cannot pay: the node adds up the max fees of all pending transactions, and the actual costs
        are lower. Such a transaction is sent again later.
        """
        is_behind_another = transaction.nonce > first_nonce
        cannot_pay = reply.result is SendResult.CANNOT_PAY
        if reply.result is SendResult.RETRY_LATER or (cannot_pay and is_behind_another):
            raise ChainUnavailable(
                "could not send a transaction", detail=f'the node replied: "{reply.message}"'
            )
        if cannot_pay:
            raise ConfigError(
                f"cannot pay for transactions of {self._ports.account.address}",
                detail=f'"{reply.message}"',
                hint="Send coins of the chain to the wallet.",
            )

    def _mark_sent(self, account_name: str, accepted: Iterable[Transaction], now: int) -> None:
        newly_sent = [transaction for transaction in accepted if transaction.sent_at is None]
        if not newly_sent:
            return
        hashes = [transaction.hash for transaction in newly_sent]
        self._ports.transactions.mark_sent(account_name, hashes, sent_at=now)
        for transaction in newly_sent:
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

        The next tick uses their nonces for empty transactions, and sends their calls in smaller
        batches. If a refused transaction has only one call, the call is rejected, and the sender
        waits before it sends the same call again.

        A refused transaction is not withdrawn in two cases: if it has no calls, or if the node has
        accepted a transaction with this nonce before, which may still be mined. In these cases the
        refused transaction is sent again. If the node continues to refuse it, an empty transaction
        replaces it after a while.
        """
        entries = {entry.id: entry for entry in view.entries}
        sent_nonces: set[int] = set()
        for transaction in view.transactions:
            if transaction.sent_at is not None:
                sent_nonces.add(transaction.nonce)
        withdrawn_nonces: list[int] = []
        for transaction, reply in refused:
            entry_ids = transaction.entry_ids
            call_count = len(entry_ids)
            log.warning(
                "transaction_refused",
                tx=transaction.hash,
                nonce=transaction.nonce,
                calls=call_count,
                reason=reply.message,
            )
            if not entry_ids:
                continue
            refusal = NodeRefusal(call_count=call_count, message=reply.message)
            self._refusals |= dict.fromkeys(entry_ids, refusal)
            if transaction.nonce not in sent_nonces:
                withdrawn_nonces.append(transaction.nonce)
            if call_count == 1 and entry_ids[0] in entries:
                self._backoffs.start(entries[entry_ids[0]], self._ports.clock.now())
        if withdrawn_nonces:
            self._ports.transactions.record(
                account_name, changes=(), withdrawn_nonces=withdrawn_nonces, closed_nonces=()
            )


def _calls_of(entry_ids: Iterable[int], calls: Mapping[int, Call]) -> tuple[Call, ...]:
    return tuple(calls[entry_id] for entry_id in entry_ids)


def _log_changes(changes: Iterable[EntryChange]) -> None:
    final_count = 0
    for change in changes:
        if change.state is SendState.FINAL:
            final_count += 1
        if change.state is SendState.REJECTED:
            log.warning("call_rejected", entry=change.entry_id, reason=change.reason)
    if final_count:
        log.info("calls_finished", calls=final_count)
