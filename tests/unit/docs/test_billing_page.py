# SPDX-License-Identifier: Apache-2.0
"""The bill that docs/explanation/billing.md explains is the one that the services would make, to
the last digit.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest
from tests.billing_page import CUSTOMER, PAGE, read_example

from gridstead.domain.attempt import NodeReport
from gridstead.domain.billing import paid_seconds_floor, price_per_minute, settle
from gridstead.domain.evidence import node_seconds
from gridstead.domain.ids import JobId, JobKey, parse_job_key
from gridstead.domain.job import Job
from gridstead.domain.lifecycle import JobState
from gridstead.domain.settlement import billed_seconds, evidence_hash

TEXT = PAGE.read_text()
EXAMPLE = TEXT[TEXT.index("## Worked example") : TEXT.index("## How to check a bill")]
JOB_KEY = JobKey(
    job_id=JobId(chain_id=1, contract="0x" + "5c" * 20, number=1), batch_location_hash="script"
)


def bill(example):
    """Return the bill of what is given, by the domain."""
    given, attempt = example.given, example.attempt(JOB_KEY)
    end = NodeReport(
        sequence=1,
        event="end",
        slurm_job_id=4711,
        uid=2001,
        occurred_at=given["end of the script by the node's clock"],
    )
    price = price_per_minute(example.resources, example.prices)
    job = Job(
        id=JOB_KEY.job_id,
        state=JobState.RUNNING,
        customer=CUSTOMER,
        provider="0x" + "a1" * 20,
        resources=example.resources,
        batch_location_hash=JOB_KEY.batch_location_hash,
        escrow=given["escrow, credits"],
        price_per_min=price,
        submitted_at=1,
        state_block=1,
    )
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


def test_the_bill_follows_from_what_is_given():
    example = read_example(TEXT)

    assert example.bill == bill(example)


def numbers():
    """Return where each number of the two tables stands in the example."""
    return [match.span(1) for match in re.finditer(r"\| ([0-9.]+) \|$", EXAMPLE, re.MULTILINE)]


@pytest.mark.parametrize(("start", "end"), numbers(), ids=str)
def test_a_changed_number_is_noticed(start, end):
    last = EXAMPLE[end - 1]
    changed = EXAMPLE[: end - 1] + str((int(last) + 1) % 10) + EXAMPLE[end:]
    example = read_example(changed)

    assert example.bill != bill(example)


def test_the_words_below_the_tables_use_the_tables_numbers():
    example = read_example(TEXT)
    (product, minute) = re.search(r"The cost is ([0-9.]+) / ([0-9]+),", EXAMPLE).groups()

    exact = example.bill["billed seconds"] * example.bill["price per minute, credits"]
    assert (float(product), minute) == (exact / 10**18, "60")
    assert exact % 60 != 0


def test_the_evidence_is_that_of_the_example_record():
    command, shown = re.search(
        r"(    printf %s .*\n.*sha256sum)\n    ([0-9a-f]{64})  -\n", TEXT
    ).groups()
    record = re.search(r"printf %s '(.*)'", command)[1]

    answer = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=True
    ).stdout

    assert answer.split() == [shown, "-"]
    attempt = replace(read_example(TEXT).attempt(), job_key=parse_job_key(record.split("|")[0]))
    assert evidence_hash(attempt) == f"0x{shown}"
