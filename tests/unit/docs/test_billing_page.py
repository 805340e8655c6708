# SPDX-License-Identifier: Apache-2.0
"""Tests that the services compute the bill of the example in docs/explanation/billing.md."""

from __future__ import annotations

import re
import subprocess

import pytest
from tests.billing_page import CUSTOMER, PAGE, read_example

from gridstead.domain.jobs.billing import divide_escrow, paid_seconds_floor, price_per_minute
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


def job_from(example, price_per_min):
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
    given = example.given
    attempt = example.attempt(JOB_KEY)
    end = end_report(example)
    price = price_per_minute(example.resources, example.prices)
    job = job_from(example, price)
    seconds_on_chain = given["time of the settling block"] - given["started, Unix seconds"]
    seconds = min(seconds_on_chain, billed_seconds(job, attempt, (end,)))
    settlement = divide_escrow(
        escrow=job.escrow, seconds=seconds, price_per_min=price, fee_percent=given["fee, percent"]
    )
    return {
        "price per minute, credits": price,
        "Slurm's seconds": attempt.elapsed_s,
        "seconds the escrow pays for": paid_seconds_floor(job.escrow, price),
        "the node's seconds": node_seconds(attempt, (end,)),
        "seconds since the start, on chain": seconds_on_chain,
        "billed seconds": seconds,
        "cost, credits": settlement.cost,
        "fee": settlement.fee,
        "provider": settlement.provider,
        "refund": settlement.refund,
    }


def test_services_compute_the_bill_of_the_page():
    example = read_example(TEXT)

    assert example.bill == bill(example)


def positions_of_last_digits():
    """Return the position of the last digit of each number in the two tables of the example."""
    numbers = re.finditer(r"\| ([0-9.]+) \|$", EXAMPLE, re.MULTILINE)
    return [number.end(1) - 1 for number in numbers]


@pytest.mark.parametrize("position", positions_of_last_digits())
def test_every_number_of_the_tables_affects_the_bill(position):
    other_digit = (int(EXAMPLE[position]) + 1) % 10
    changed_text = f"{EXAMPLE[:position]}{other_digit}{EXAMPLE[position + 1 :]}"
    example = read_example(changed_text)

    assert example.bill != bill(example)


def test_text_below_the_tables_uses_the_numbers_of_the_tables():
    example = read_example(TEXT)
    product, divisor = re.search(r"The cost is ([0-9.]+) / ([0-9]+),", EXAMPLE).groups()

    product_wei = example.bill["billed seconds"] * example.bill["price per minute, credits"]
    assert float(product) == product_wei / 10**18
    assert divisor == "60"
    assert product_wei % 60 != 0, "the example must show that the cost is rounded"


def test_page_shows_the_evidence_hash_of_its_record():
    # Matches a command in a code block and the line of its output: the hash and a hyphen.
    pattern = r"(    printf %s .*\n.*sha256sum)\n    ([0-9a-f]{64})  -\n"
    command, hash_on_page = re.search(pattern, TEXT).groups()
    record = re.search(r"printf %s '(.*)'", command)[1]
    job_key = parse_job_key(record.split("|")[0])

    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    assert result.stdout.split() == [hash_on_page, "-"]
    attempt = read_example(TEXT).attempt(job_key)
    assert evidence_hash(attempt) == f"0x{hash_on_page}"
