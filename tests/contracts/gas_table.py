# SPDX-License-Identifier: Apache-2.0
"""Renders and parses contracts/gas.md."""

from __future__ import annotations

# The gas of the contracts of DeepSquare 1.2 for the same steps; the last figure is an estimate.
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
LIMITS = {"later": 600_000, "batched": 420_000}
HEAD = """# Gas

`make gas` measures these figures on anvil and writes this page. A test fails if a figure grows by
more than 2 %.

## One whole job

The job has a script id of 22 characters and no labels. First: the first job of its customer and of
its provider. Later: the mean of the next four jobs. In batches: per job, with 50 jobs per batch
and single requests. DeepSquare 1.2: its contracts for the same steps.

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
    rows = []
    for step, (single, batch) in CALLS.items():
        calls = f"`{single}` or `{batch}`" if single != batch else f"`{single}`"
        figures = [column[step] for column in columns]
        rows.append(_row(step, calls, *figures))
    sums = [sum(column.values()) for column in columns]
    rows.append(_row("**sum**", "", *sums))
    rows.append(_row("limit", "", "", "", *LIMITS.values()))
    other_rows = [_row(*item) for item in others.items()]
    return "".join([HEAD, *rows, OTHERS_HEAD, *other_rows])


def parse(page: str) -> Table:
    """Return the figures of each row of a page by the row's name, without those of DeepSquare."""
    table = {}
    for line in page.splitlines():
        cells = [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        numbers = tuple(int(cell) for cell in cells if cell.isdigit())
        if numbers:
            name = line.strip("|").split("|")[0].strip()
            table[name] = numbers[1:] if len(numbers) > len(LIMITS) else numbers
    return table


def _row(*cells: str | int) -> str:
    texts = [f"{cell:,}" if isinstance(cell, int) else cell for cell in cells]
    return f"| {' | '.join(texts)} |\n"
