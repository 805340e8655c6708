# SPDX-License-Identifier: Apache-2.0
"""Calls and outbox entries for the tests of the sender's decisions."""

from __future__ import annotations

from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.batches import pack_batches
from gridstead.domain.transactions.calls import SetRunning, Settle
from gridstead.domain.transactions.outbox import OutboxEntry, SendState

WALLET = "0x" + "a1" * 20
CUSTOMER = "0x" + "c1" * 20
CONTRACT = "0x" + "5c" * 20


def job_id(number=1):
    return JobId(chain_id=179188, contract=CONTRACT, number=number)


def job_key(number=1, script="a"):
    return JobKey(job_id=job_id(number), batch_location_hash=script)


def start_call(number=1, script="a"):
    """Return a call that reports the start of a job."""
    return SetRunning(job_key=job_key(number, script), started_at=5)


def settle_call(number=1, script="a"):
    """Return a call that settles a job."""
    return Settle(
        job_key=job_key(number, script),
        state=JobState.FINISHED,
        seconds=1,
        exit_code=0,
        error="",
        evidence="0x" + "00" * 32,
    )


def entry(entry_id, call=None, state=SendState.QUEUED):
    """Return an outbox entry. The default call reports the start of job number ``entry_id``."""
    call = call or start_call(entry_id)
    return OutboxEntry(id=entry_id, key=str(entry_id), call=call, state=state, created_at=1)


def entries_from(first, last):
    """Return entries with the ids ``first`` to ``last``. Each reports the start of its own job."""
    return [entry(number) for number in range(first, last + 1)]


def pack_entries(entries, *, max_calls, gas_limit=10**9, max_gas=None, refusals=None):
    """Return the batches of the entries as a list of tuples of entry ids."""
    batches = pack_batches(
        entries,
        max_calls=max_calls,
        gas_limit=gas_limit,
        max_gas=max_gas or {},
        refusals=refusals or {},
    )
    return list(batches)
