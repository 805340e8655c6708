# SPDX-License-Identifier: Apache-2.0
"""Stores matches in the outbox, and signs the record of the decision.

The record and its matches are stored in one transaction. So after a crash at any point, the log
contains exactly the matches that were put into the outbox. After a restart, the log continues
after its last record. A match in the log may still fail: the chain shows which matches succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gridstead.domain.jobs.job import Block
from gridstead.domain.matching.decision_log import next_record
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.transactions.calls import Match, outbox_key
from gridstead.ports import DecisionStore


class DecisionLog:
    """Writes the decision log of a meta-scheduler.

    Args:
        store: Stores the records and the matches.
        rules: The parameters of the decisions.
        sign: Returns the EIP-191 signature of a text with the key of the meta-scheduler's wallet.
    """

    def __init__(self, store: DecisionStore, rules: Rules, *, sign: Callable[[str], bytes]) -> None:
        self._store = store
        self._rules = rules
        self._sign = sign

    def put_matches(self, block: Block, matches: Sequence[Match]) -> None:
        """Store the matches of a decision in the outbox, and a record of them. Both or neither.

        Args:
            block: The block at which the matches were decided.
            matches: The matches, in the order in which they were decided. Not empty.
        """
        record = next_record(
            self._store.last_record(), block, matches, self._rules, sign=self._sign
        )
        calls = [(outbox_key(match), match) for match in matches]
        self._store.append(record, calls)
