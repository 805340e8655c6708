# SPDX-License-Identifier: Apache-2.0
"""contracts/gas.md: the figures as people read them, and read back."""

from __future__ import annotations

# What the contracts of DeepSquare 1.2 use on the same path; the last is an estimate.
REFERENCE = {
    "request": 635_000,
    "match": 293_000,
    "claim": 205_000,
    "start": 360_000,
    "end": 400_000,
}
CALLS = {
    "request": ("requestNewJob", "requestNewJob"),
    "match": ("metaSchedule", "metaScheduleMany"),
    "claim": ("claimNextJob", "claimJobs"),
    "start": ("providerSetJobStatus, RUNNING", "setRunningMany"),
    "end": ("providerSetJobStatus, FINISHED", "settleMany"),
}
BARS = {"later": 600_000, "batched": 420_000}
HEAD = """# Gas

What `make gas` measured on anvil; it writes this page anew. A test fails when a figure grows by more than 2 %.

## One whole life

A script's id of 22 characters, no labels. First: the first job of its customer and of its provider. Later: the mean
of the four that follow. In batches: per job, with 50 in each batch and the requests one by one. DeepSquare 1.2: its
own contracts on the same path.

| step | calls | DeepSquare 1.2 | first | later | in batches |
|---|---|---:|---:|---:|---:|
"""
OTHERS_HEAD = """
## Other calls

| call | gas |
|---|---:|
"""

Table = dict[str, tuple[int, ...]]


def render(
    first: dict[str, int], later: dict[str, int], batched: dict[str, int], others: dict[str, int]
) -> str:
    """Return the page."""
    columns = (REFERENCE, first, later, batched)
    rows = [
        _row(
            step,
            f"`{old}` or `{new}`" if old != new else f"`{old}`",
            *(column[step] for column in columns),
        )
        for step, (old, new) in CALLS.items()
    ]
    sums = _row("**sum**", "", *(sum(column.values()) for column in columns))
    bars = _row("bar", "", "", "", *BARS.values())
    return (
        HEAD
        + "".join([*rows, sums, bars])
        + OTHERS_HEAD
        + "".join(_row(*one) for one in others.items())
    )


def parse(page: str) -> Table:
    """Return the figures of each row of a page, by the row's name; without those of the other
    contracts.
    """
    table = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        numbers = tuple(
            int(cell.replace(",", "")) for cell in cells if cell.replace(",", "").isdigit()
        )
        if numbers:
            table[cells[0]] = numbers[1:] if len(numbers) > len(BARS) else numbers
    return table


def _row(*cells: str | int) -> str:
    return (
        "| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in cells) + " |\n"
    )
