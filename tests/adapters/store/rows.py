# SPDX-License-Identifier: Apache-2.0
"""Rows that tests write to a store."""

from __future__ import annotations

from dataclasses import replace

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Block, Hardware, Label
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.journal import JournalEntry
from gridstead.domain.transactions.calls import Register, Settle
from gridstead.domain.transactions.outbox import Fees, Transaction

CONTRACT = "0x" + "ab" * 20
# An account is the hash of a chain's first block and the address of a wallet.
ACCOUNT = "0x" + "00" * 32 + "/0x" + "cd" * 20


def job_key(number=1, script="script-1"):
    return JobKey(
        job_id=JobId(chain_id=179188, contract=CONTRACT, number=number), batch_location_hash=script
    )


def entry(kind, number=1, occurred_at=100, **fields):
    return JournalEntry(job_key=job_key(number), kind=kind, occurred_at=occurred_at, **fields)


def block(number, fork="a"):
    """Return a block. Blocks of different forks have different hashes."""
    block_hash = f"{number:x}{fork}".rjust(64, "0")
    return Block(number=number, hash=f"0x{block_hash}", timestamp=1000 + number)


def transaction(nonce, *entry_ids, name="1", **changes):
    """Return a signed transaction. ``name`` distinguishes transactions with the same nonce."""
    default_transaction = Transaction(
        hash=f"0x{nonce:060x}{name:>04}",
        nonce=nonce,
        fees=Fees(max_fee=3 * 10**30, tip=1),
        raw="0x02aa",
        entry_ids=entry_ids,
    )
    return replace(default_transaction, **changes)


SETTLE = Settle(
    job_key=job_key(),
    state=JobState.FINISHED,
    seconds=61,
    exit_code=0,
    error='a "word"',
    evidence="0x" + "11" * 32,
)
REGISTER = Register(
    hardware=Hardware(gpus_per_node=(0, 1), cpus_per_node=(4, 8), memory_per_node_mb=(1000, 2000)),
    prices=Prices(gpu_per_min=10**24, cpu_per_min=1, memory_mb_per_min=0),
    labels=(Label(key="os", value="linux"),),
)
