# SPDX-License-Identifier: Apache-2.0
"""The worked example of docs/explanation/billing.md, read from the page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from gridstead.domain.attempt import Attempt
from gridstead.domain.billing import Prices, Resources

PAGE = Path(__file__).parents[1] / "docs/explanation/billing.md"
CREDIT = 10**18
CUSTOMER = "0x" + "c1" * 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What is given and the bill that follows from it, by the words of the page. Credits are in
    wei.
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
            submitted_at=self.given["started, Unix seconds"] - 6,
            started_at=self.given["started, Unix seconds"],
            ended_at=self.given["ended"],
            suspended_s=self.given["suspended, seconds"],
        )


def read_example(text: str) -> Example:
    """Return the example of the page's text."""
    given, bill = (_rows(text, title) for title in ("given", "bill"))
    return Example(given=given, bill=bill)


def _rows(text: str, title: str) -> dict[str, int]:
    table = re.search(rf"^\| {title} \| \|\n\|---\|---\|\n((?:\|.*\|\n)+)", text, re.MULTILINE)
    assert table, f"there is no table {title!r}"
    rows = dict(
        re.fullmatch(r"\| (.*) \| ([0-9.]+) \|", line).groups() for line in table[1].splitlines()
    )
    credits_ = {name for name in rows if "credits" in name} | {"fee", "provider", "refund"}
    return {name: _whole(rows[name], CREDIT if name in credits_ else 1) for name in rows}


def _whole(text: str, unit: int) -> int:
    value = Fraction(text) * unit
    assert value.denominator == 1, f"{text} has too many digits"
    return int(value)
