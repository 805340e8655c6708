# SPDX-License-Identifier: Apache-2.0
"""Reads the worked example from docs/explanation/billing.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.supervisor.attempt import Attempt

PAGE = Path(__file__).parents[1] / "docs/explanation/billing.md"
CREDIT = 10**18
CUSTOMER = "0x" + "c1" * 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """The worked example. ``given`` and ``bill`` are its tables.

    Each table is a dict from the name of a row to its number. Amounts of credits are in wei.
    """

    given: dict[str, int]
    bill: dict[str, int]

    @property
    def resources(self) -> Resources:
        return Resources(
            gpus=self.given["GPUs"],
            tasks=self.given["tasks"],
            cpus_per_task=self.given["CPUs per task"],
            memory_per_cpu_mb=self.given["memory per CPU, MB"],
        )

    @property
    def prices(self) -> Prices:
        return Prices(
            gpu_per_min=self.given["GPU price, credits a minute"],
            cpu_per_min=self.given["CPU price, credits a minute"],
            memory_mb_per_min=self.given["memory price, credits a MB and minute"],
        )

    def attempt(self, job_key=None) -> Attempt:
        return Attempt(
            slurm_job_id=4711,
            name="",
            job_key=job_key,
            user=CUSTOMER,
            uid=2001,
            state="COMPLETED",
            # The record on the page was submitted 6 s before it started.
            submitted_at=self.given["started, Unix seconds"] - 6,
            started_at=self.given["started, Unix seconds"],
            ended_at=self.given["ended"],
            suspended_s=self.given["suspended, seconds"],
        )


def read_example(text: str) -> Example:
    """Return the example in the text of the page."""
    return Example(given=_rows(text, "given"), bill=_rows(text, "bill"))


def _rows(text: str, title: str) -> dict[str, int]:
    """Return the numbers of a table by the names of its rows."""
    table = re.search(rf"^\| {title} \| \|\n\|---\|---\|\n((?:\|.*\|\n)+)", text, re.MULTILINE)
    assert table, f"the page has no table {title!r}"
    rows = {}
    for line in table[1].splitlines():
        name, number = re.fullmatch(r"\| (.*) \| ([0-9.]+) \|", line).groups()
        is_credits = "credits" in name or name in {"fee", "provider", "refund"}
        unit = CREDIT if is_credits else 1
        rows[name] = _to_integer(number, unit)
    return rows


def _to_integer(text: str, unit: int) -> int:
    """Return a decimal number times a unit. The product must be an integer."""
    value = Fraction(text) * unit
    assert value.denominator == 1, f"{text} has too many digits"
    return int(value)
