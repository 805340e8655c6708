# SPDX-License-Identifier: Apache-2.0
"""Functions that render and parse the page contracts/gas.md."""

from __future__ import annotations

# The gas of each step of a job with the contracts of DeepSquare 1.2, from which the contracts are
# derived. The last figure is an estimate.
DEEPSQUARE_GAS = {
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

`make gas` measures the gas of Gridstead's contracts on anvil, Foundry's local Ethereum node, and
writes this page. A test fails if a figure grows by more than 2 %.

## One whole job

The job has a script id of 22 characters and no labels. The columns contain the gas of each step:

- *DeepSquare 1.2*: with the contracts of DeepSquare 1.2. The figure for the end is an estimate.
- *first*: for the first job of its customer and of its provider.
- *later*: the mean for the next four jobs.
- *in batches*: per job, if 50 jobs are handled in one call. Each request is still a separate call.

| step | calls | DeepSquare 1.2 | first | later | in batches |
|---|---|---:|---:|---:|---:|
"""
OTHERS_HEAD = """
## Other calls

The word after a comma is the state of the job before the call, or `failed`: a settlement of failed
jobs with an exit code and the longest error text, 64 bytes. The figure of `settleMany` is per job,
for 50 jobs in one call. `register` and `approve` are for one node and one label, or 50 labels: all
labels with a fixed meaning and some of the operator.

| call | gas |
|---|---:|
"""

EXTREMES_HEAD = """
## Calls of customers in the dearest state

Other accounts can change the state between the estimate of a customer's gas and its transaction.
The figures are for the state in which the call uses the most gas: no slot that it writes has a
value. The contracts refuse a call with less gas than this plus 10 %
(`src/libraries/GasFloors.sol`), so that the estimate of a node suffices in every state. Unused gas
is not paid.

| call | gas |
|---|---:|
"""

Table = dict[str, tuple[int, ...]]


def render(
    first: dict[str, int],
    later: dict[str, int],
    batched: dict[str, int],
    others: dict[str, int],
    extremes: dict[str, int],
) -> str:
    """Return the text of the page."""
    columns = (DEEPSQUARE_GAS, first, later, batched)
    rows = []
    for step, (single, batch) in CALLS.items():
        calls = f"`{single}`"
        if single != batch:
            calls += f" or `{batch}`"
        figures = [column[step] for column in columns]
        rows.append(_row(step, calls, *figures))
    sums = [sum(column.values()) for column in columns]
    rows.append(_row("**sum**", "", *sums))
    rows.append(_row("limit", "", "", "", *LIMITS.values()))
    other_rows = [_row(*item) for item in others.items()]
    extreme_rows = [_row(extreme_name(call), gas) for call, gas in extremes.items()]
    return "".join([HEAD, *rows, OTHERS_HEAD, *other_rows, EXTREMES_HEAD, *extreme_rows])


def extreme_name(call: str) -> str:
    """Return the name of the row of a call in the dearest state."""
    return f"{call}, dearest"


def parse(page: str) -> Table:
    """Return the figures of each row by the name of the row, except the figures of DeepSquare."""
    table = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        digits = [cell.replace(",", "") for cell in cells]
        numbers = tuple(map(int, filter(str.isdigit, digits)))
        if not numbers:
            continue
        # A step has four figures, the first of which is that of DeepSquare 1.2. The row of the
        # limits has two figures, and each other call has one.
        has_figure_of_deepsquare = len(numbers) > len(LIMITS)
        table[cells[0]] = numbers[1:] if has_figure_of_deepsquare else numbers
    return table


def _row(*cells: str | int) -> str:
    texts = [f"{cell:,}" if isinstance(cell, int) else cell for cell in cells]
    return f"| {' | '.join(texts)} |\n"
