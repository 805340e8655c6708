# SPDX-License-Identifier: Apache-2.0
"""Chain views, and the plans that the sender makes for them.

An outbox entry is a call that must be sent. A transaction contains the calls of one or several
entries. After the sender has replaced a transaction by one with higher fees, both have the same
nonce. A call is sendable if it may be sent to the node now. An objection to a call is the reason
why the call is no longer valid and must not be sent.
"""

from __future__ import annotations

from tests.unit.domain.transactions.outbox import entry

from gridstead.domain.transactions.dispatch import plan_transactions
from gridstead.domain.transactions.outbox import (
    ChainView,
    EntryChange,
    Fees,
    PendingStatus,
    Receipt,
    SendState,
    Transaction,
)
from gridstead.domain.transactions.plan import DispatchPolicy

FEES = Fees(max_fee=100, tip=10)
POLICY = DispatchPolicy(
    confirmations=2, max_batch_calls=3, max_pending_nonces=4, resend_after_s=10, replace_after_s=40
)
NOW = 1000
HEAD = 50


def transaction(nonce, *entry_ids, name="", **fields):
    """Return a transaction that the node accepted. Its hash is the nonce and the name."""
    values = {"raw": "0x", "fees": FEES, "sent_at": 1} | fields
    return Transaction(hash=f"{nonce}{name}", nonce=nonce, entry_ids=entry_ids, **values)


def view(*entries, transactions=(), statuses=None, **fields):
    """Return a chain view with these fields. By default, the transactions were sent just now."""
    if statuses is None:
        just_sent = PendingStatus(waiting_since=NOW, last_sent_at=NOW)
        statuses = dict.fromkeys(map(hash_of, transactions), just_sent)
    values = {
        "now": NOW,
        "head": HEAD,
        "certain_nonce": 7,  # The wallet has used the nonces below 7.
        "receipts": {},
        "objections": {},
        "fees": FEES,
        "gas_limit": 30_000_000,
        "max_gas": {},
        "refusals": {},
    } | fields
    values.setdefault("nonce_at_head", values["certain_nonce"])
    return ChainView(entries=entries, transactions=tuple(transactions), statuses=statuses, **values)


def hash_of(transaction):
    return transaction.hash


def plan_for(*entries, policy=POLICY, **fields):
    """Return the plan for a view with these entries."""
    return plan_transactions(view(*entries, **fields), policy)


def sent_entries(first, last):
    """Return sent entries with the ids ``first`` to ``last``."""
    return [entry(number, state=SendState.SENT) for number in range(first, last + 1)]


def change(entry_id, state, reason=""):
    return EntryChange(entry_id=entry_id, state=state, reason=reason)


def receipt(block, *, succeeded=True, skipped=None):
    return Receipt(block=block, block_hash="", succeeded=succeeded, skipped=skipped or {})


def assert_sends_nothing(plan):
    assert plan.batches == ()
    assert plan.replacements == ()
    assert plan.to_send == ()
