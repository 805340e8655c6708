# SPDX-License-Identifier: Apache-2.0
"""Calls and outbox entries for the tests of the sender's decisions."""

from __future__ import annotations

from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.batches import pack
from gridstead.domain.transactions.calls import SetRunning, Settle
from gridstead.domain.transactions.outbox import OutboxEntry, SendState

WALLET = "0x" + "a1" * 20
CUSTOMER = "0x" + "c1" * 20
CONTRACT = "0x" + "5c" * 20


def job_id(number=1):
    return JobId(chain_id=179188, contract=CONTRACT, number=number)


def job_key(number=1, script="a"):
    return JobKey(job_id=job_id(number), batch_location_hash=script)


def running(number=1, script="a"):
    return SetRunning(job_key=job_key(number, script), started_at=5)


def ending(number=1, script="a"):
    return Settle(
        job_key=job_key(number, script),
        state=JobState.FINISHED,
        seconds=1,
        exit_code=0,
        error="",
        evidence="0x" + "00" * 32,
    )


def entry(entry_id, call=None, state=SendState.QUEUED):
    call = call or running(entry_id)
    return OutboxEntry(id=entry_id, key=str(entry_id), call=call, state=state, created_at=1)


def packed(entries, *, most, gas_limit=10**9, gas=None, refusals=None):
    return pack(entries, most=most, gas_limit=gas_limit, gas=gas or {}, refusals=refusals or {})
