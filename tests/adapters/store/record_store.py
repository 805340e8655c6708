#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the SQL dump of a store that contains each kind of journal entry and each kind of call.

Tests check that later releases can read the dump.

Usage: record_store.py > recorded/<version>.sql
Run this program in a checkout of the release <version>.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.adapters.store.conftest import SqlStore
from tests.adapters.store.rows import (
    ACCOUNT,
    REGISTER,
    SETTLE,
    block,
    entry,
    job_key,
    transaction,
)

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry
from gridstead.domain.transactions.calls import (
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Expire,
    Match,
    Refuse,
    SetRunning,
)
from gridstead.domain.transactions.outbox import EntryChange, SendState

CALLS = (
    ("register", REGISTER),
    ("claim:100:1", ClaimJobs(limit=20)),
    ("cancelling:100:1", ClaimCancelling()),
    ("top-up:100:1", ClaimTopUp()),
    (f"running:{job_key(2)}", SetRunning(job_key=job_key(2), started_at=1000)),
    (f"settle:{job_key()}", SETTLE),
    (f"refuse:{job_key(3)}", Refuse(job_key=job_key(3))),
    (
        f"match:{job_key(4)}",
        Match(job_key=job_key(4), provider="0x" + "ef" * 20, max_price_per_min=10**30),
    ),
    (f"expire:{job_key(5)}", Expire(job_key=job_key(5), state=JobState.SCHEDULED, state_block=99)),
)


def entries_of_job(number: int, kind: EntryKind) -> list[JournalEntry]:
    """Return the journal entries of a claimed job. The last entry is of kind ``kind``."""
    claim_entry = entry(EntryKind.CLAIMED, number)
    if kind is EntryKind.CLAIMED:
        return [claim_entry]
    has_slurm_job = kind in {EntryKind.SUBMITTED, EntryKind.SEEN}
    slurm_job_id = 700 + number if has_slurm_job else None
    last = entry(kind, number, occurred_at=200, slurm_job_id=slurm_job_id, reason="a reason")
    return [claim_entry, last]


def fill(store: SqlStore) -> None:
    """Write rows of every kind into the store."""
    for number, kind in enumerate(EntryKind, 1):
        store.journal.append(entries_of_job(number, kind))
    store.cursor("reader").save(block(100))
    store.outbox.put_all(CALLS)
    first, second, third, *_ = store.outbox.open_entries()
    # The transaction with nonce 7 contains two calls, and that with nonce 8 contains one call.
    store.outbox.add(ACCOUNT, transaction(7, first.id, second.id), transaction(8, third.id))
    change = EntryChange(entry_id=third.id, state=SendState.REJECTED, reason="NothingToClaim()")
    store.outbox.record(ACCOUNT, changes=[change], withdrawn_nonces=[], closed_nonces=[8])


def main() -> None:
    """Fill a store and print its SQL dump."""
    with TemporaryDirectory() as folder:
        store = SqlStore(f"sqlite:///{folder}/state.db")
        fill(store)
        store.close()
        connection = sqlite3.connect(f"{folder}/state.db")
        print("\n".join(connection.iterdump()))
        connection.close()


if __name__ == "__main__":
    main()
