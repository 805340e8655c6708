# SPDX-License-Identifier: Apache-2.0
"""What the sender sees of the chain in one tick.

Rule 1: nothing in a view is younger than the newest block or of another history. Rule 2: what
cannot be taken back is judged by the block below the newest: some nodes answer for their newest
block while they already write the next one into the same state, so a call may seem done before its
transaction is in a block. Rule 3: what was read stays true until the chain is reorganised, which
shows in the hash of the last block seen. Rule 4: several servers may answer, of which some lag or
stand on another fork. A missing receipt says something only when the nonce was used up long ago,
and a receipt only as long as its block is the chain's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from gridstead.domain.batches import subject
from gridstead.domain.calls import Call
from gridstead.domain.dispatch import TransactionPlan, objection
from gridstead.domain.job import Block
from gridstead.domain.sending import ChainView, OutboxEntry, Receipt, Refusal, Transaction, Waiting
from gridstead.errors import ChainUnavailable
from gridstead.ports import Account, Clock, Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a wallet's outbox holds, and what its sender remembers of sending it.

    Attributes:
        entries: Open entries, oldest first.
        transactions: Those of open nonces, by nonce and then age.
        waiting: By hash, when a transaction was given to the node.
        refusals: By entry id, the last refusal of a transaction with it.
    """

    entries: tuple[OutboxEntry, ...]
    transactions: tuple[Transaction, ...]
    waiting: Mapping[str, Waiting]
    refusals: Mapping[int, Refusal]


class ChainViewReader:
    """Looks at the chain for one wallet.

    Args:
        clock: Dates the views.
        ledger: The chain.
        account: The wallet.
        confirmations: A used nonce without a receipt is a stranger's only that many blocks down,
            and a receipt that deep is looked at once more.
    """

    def __init__(
        self, clock: Clock, ledger: Ledger, account: Account, *, confirmations: int
    ) -> None:
        self._confirmations = confirmations
        self._clock = clock
        self._ledger = ledger
        self._account = account
        self._receipts: dict[str, Receipt] = {}
        self._seen: tuple[Block, Block] | None = (
            None  # the newest block and the one below, at the last look
        )
        self._is_other = True

    def read(self, work: Work) -> ChainView:
        """Return a view without objections.

        Raises:
            ChainUnavailable: The chain did not answer, or changed meanwhile.
        """
        account, seen = self._account, self._seen
        head = self._ledger.head()
        below = self._block(head.number - 1) if head.number else head
        self._is_other = seen is None or not self._holds(seen[0], head, below)
        self._seen = None  # until this look is whole
        reached = account.nonce(at_block=head)
        receipts = self._find(work.transactions, head, reached)
        deep = (
            below
            if self._confirmations <= 1
            else self._block(max(0, head.number - self._confirmations))
        )
        nonce = _certain(account.nonce(at_block=deep), work.transactions, receipts)
        gas_limit, fees = account.gas_limit(at_block=head), account.fees()
        if self._block(head.number).hash != head.hash:
            raise _changed()
        self._seen, self._receipts = (head, below), receipts
        return ChainView(
            now=self._clock.now(),
            head=head.number,
            nonce=nonce,
            reached=reached,
            entries=work.entries,
            transactions=work.transactions,
            receipts=receipts,
            objections={},
            waiting=work.waiting,
            fees=fees,
            gas_limit=gas_limit,
            gas={entry.id: account.gas_of(entry.call) for entry in work.entries},
            refusals=work.refusals,
        )

    def check(self, view: ChainView, decided: TransactionPlan) -> ChainView:
        """Return the view with what speaks against the calls that a plan would give to the node.

        After a reorg, and at the start of a process, against all that wait to be mined too.
        """
        asked = decided.given
        if self._is_other:
            waiting = (
                one
                for one in view.transactions
                if one.hash not in view.receipts and one.nonce >= view.first
            )
            asked |= {i for one in waiting for i in one.entry_ids}
        if not asked or self._seen is None:
            return replace(view, cleared=frozenset())
        head, below = self._seen
        calls = {entry.id: entry.call for entry in view.entries if entry.id in asked}
        doubts = self._objections(calls, head)
        certain = self._objections({i: calls[i] for i in doubts}, below)
        if self._block(head.number).hash != head.hash:
            raise _changed()
        return replace(
            view, objections={i: doubts[i] for i in certain}, cleared=asked - doubts.keys()
        )

    def _find(
        self, transactions: Collection[Transaction], head: Block, reached: int
    ) -> dict[str, Receipt]:
        """Return the receipts of what is in a block; asked are those that may be new."""
        known = {} if self._is_other else self._receipts
        receipts = {one.hash: known[one.hash] for one in transactions if one.hash in known}
        new = [one.hash for one in transactions if one.nonce < reached and one.hash not in receipts]
        found = dict(self._account.receipts(new)) if new else {}
        doubtful = {
            tx: one
            for tx, one in receipts.items()
            if head.number - one.block >= self._confirmations
        } | found
        hashes = {
            number: self._block(number).hash
            for number in {one.block for one in doubtful.values()}
            if number <= head.number
        }
        wrong = {tx for tx, one in doubtful.items() if hashes.get(one.block) != one.block_hash}
        return {tx: receipt for tx, receipt in (receipts | found).items() if tx not in wrong}

    def _objections(self, calls: Mapping[int, Call], at_block: Block) -> dict[int, str]:
        """Return why calls must not be made, as a block has it."""
        named = {
            i: job_key.job_id.number
            for i, call in calls.items()
            if (job_key := subject(call)) is not None
        }
        if not named:
            return {}
        jobs = self._ledger.jobs(sorted(set(named.values())), at_block=at_block)
        wallet = self._account.address
        reasons = (
            (i, objection(calls[i], jobs.get(number), wallet=wallet)) for i, number in named.items()
        )
        return {i: reason for i, reason in reasons if reason}

    def _holds(self, last: Block, head: Block, below: Block) -> bool:
        """Return whether a block that was the newest is still part of the chain."""
        if last.number > head.number:
            return False
        known = {head.number: head, below.number: below}
        return (known.get(last.number) or self._block(last.number)).hash == last.hash

    def _block(self, number: int) -> Block:
        block = self._ledger.block(number)
        if block is None:
            raise _changed()
        return block


def _certain(
    deep: int, transactions: Iterable[Transaction], receipts: Mapping[str, Receipt]
) -> int:
    """Return the nonce below which nothing changes any more, for all that one can tell.

    Args:
        deep: The nonce as a block has it that is final.
        transactions: Those of open nonces.
        receipts: By hash. One speaks for its own nonce only: an earlier one's may be hidden by a
            server that lags.
    """
    nonce, mined = deep, {one.nonce for one in transactions if one.hash in receipts}
    for each in sorted({one.nonce for one in transactions if one.nonce >= deep}):
        if each not in mined:
            break
        nonce = each + 1
    return nonce


def _changed() -> ChainUnavailable:
    return ChainUnavailable("could not read the chain", detail="it was reorganised meanwhile")
