# SPDX-License-Identifier: Apache-2.0
"""The bill in docs/explanation/billing.md is exactly the one that the services compute."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest
from tests.billing_page import CUSTOMER, PAGE, read_example

from gridstead.domain.jobs.billing import paid_seconds_floor, price_per_minute, settle
from gridstead.domain.jobs.ids import JobId, JobKey, parse_job_key
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.attempt import NodeReport
from gridstead.domain.supervisor.evidence import node_seconds
from gridstead.domain.supervisor.settlement import billed_seconds, evidence_hash

TEXT = PAGE.read_text()
EXAMPLE = TEXT[TEXT.index("## Worked example") : TEXT.index("## How to check a bill")]
JOB_KEY = JobKey(
    job_id=JobId(chain_id=1, contract="0x" + "5c" * 20, number=1), batch_location_hash="script"
)


def job_of(example, price_per_min):
    """Return the job of the example."""
    return Job(
        id=JOB_KEY.job_id,
        state=JobState.RUNNING,
        customer=CUSTOMER,
        provider="0x" + "a1" * 20,
        resources=example.resources,
        batch_location_hash=JOB_KEY.batch_location_hash,
        escrow=example.given["escrow, credits"],
        price_per_min=price_per_min,
        submitted_at=1,
        state_block=1,
    )


def end_report(example):
    """Return the node's report of the end of the script."""
    return NodeReport(
        sequence=1,
        event="end",
        slurm_job_id=4711,
        uid=2001,
        occurred_at=example.given["end of the script by the node's clock"],
    )


def bill(example):
    """Return the bill that the domain computes from the example's given values."""
    given, attempt, end = example.given, example.attempt(JOB_KEY), end_report(example)
    price = price_per_minute(example.resources, example.prices)
    job = job_of(example, price)
    on_chain = given["time of the settling block"] - given["started, Unix seconds"]
    seconds = min(on_chain, billed_seconds(job, attempt, (end,)))
    divided = settle(
        escrow=job.escrow, seconds=seconds, price_per_min=price, fee_percent=given["fee, percent"]
    )
    return {
        "price per minute, credits": price,
        "Slurm's seconds": attempt.elapsed_s,
        "seconds the escrow pays for": paid_seconds_floor(job.escrow, price),
        "the node's seconds": node_seconds(attempt, (end,)),
        "seconds since the start, on chain": on_chain,
        "billed seconds": seconds,
        "cost, credits": divided.cost,
        "fee": divided.fee,
        "provider": divided.provider,
        "refund": divided.refund,
    }


def test_bill_follows_from_the_given_values():
    example = read_example(TEXT)

    assert example.bill == bill(example)


def number_ends():
    """Return the end position of each number in the two tables of the example."""
    return [match.end(1) for match in re.finditer(r"\| ([0-9.]+) \|$", EXAMPLE, re.MULTILINE)]


@pytest.mark.parametrize("end", number_ends())
def test_every_number_of_the_tables_affects_the_bill(end):
    last_digit = int(EXAMPLE[end - 1])
    changed = EXAMPLE[: end - 1] + str((last_digit + 1) % 10) + EXAMPLE[end:]
    example = read_example(changed)

    assert example.bill != bill(example)


def test_text_below_the_tables_uses_their_numbers():
    example = read_example(TEXT)
    (product, minute) = re.search(r"The cost is ([0-9.]+) / ([0-9]+),", EXAMPLE).groups()

    exact = example.bill["billed seconds"] * example.bill["price per minute, credits"]
    assert (float(product), minute) == (exact / 10**18, "60")
    assert exact % 60 != 0


def test_evidence_hash_is_that_of_the_example_record():
    command, shown = re.search(
        r"(    printf %s .*\n.*sha256sum)\n    ([0-9a-f]{64})  -\n", TEXT
    ).groups()
    record = re.search(r"printf %s '(.*)'", command)[1]

    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    assert result.stdout.split() == [shown, "-"]
    attempt = replace(read_example(TEXT).attempt(), job_key=parse_job_key(record.split("|")[0]))
    assert evidence_hash(attempt) == f"0x{shown}"
