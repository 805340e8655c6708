# SPDX-License-Identifier: Apache-2.0
"""Shows a job until it ends: each state with its time, the output, and the cost."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

from rich.status import Status
from rich.text import Text

from gridstead.cli.client import (
    GridClient,
    cost_so_far,
    job_to_json,
    shell_exit_code,
    waiting_reason,
)
from gridstead.cli.job_output import JobOutput
from gridstead.cli.output import credits_text, emit_json, print_line, print_note, stderr_console
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.errors import Transient

POLL_S = 0.5
INTERRUPTED = 130  # exit code after Ctrl-C, as in a shell

STATE_DESCRIPTIONS = {
    JobState.PENDING: "waits for a provider",
    JobState.META_SCHEDULED: "matched to a provider",
    JobState.SCHEDULED: "claimed; waits in the cluster's queue",
    JobState.RUNNING: "running",
    JobState.CANCELLED: "cancelled",
    JobState.FINISHED: "finished",
    JobState.FAILED: "failed",
    JobState.OUT_OF_CREDITS: "stopped at the end of its paid time",
    JobState.PANICKED: "lost by its provider; it is not billed",
}

REQUEST_DESCRIPTION = "cancelled by its customer; its provider stops it"


def describe(job: Job) -> str:
    """Return what the state of a job means, or that the job waits for its provider to stop it."""
    if job.cancel_requested and job.state not in COLD:
        return REQUEST_DESCRIPTION
    return STATE_DESCRIPTIONS[job.state]


def format_time_of_day(timestamp: float) -> str:
    """Return the local time of day of a Unix time."""
    return time.strftime("%H:%M:%S", time.localtime(timestamp))


def format_time(timestamp: float) -> str:
    """Return the local date and time of a Unix time. Returns a dash for 0."""
    if not timestamp:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp))


def watch(
    client: GridClient,
    number: int,
    *,
    as_json: bool,
    extra_fields: Mapping[str, object] = MappingProxyType({}),
) -> Job:
    """Show a job until it has ended, and return it. Ctrl-C ends the process, but not the job.

    Args:
        client: The connections to the grid.
        number: The number of the job.
        as_json: Whether only the ended job is printed, as JSON.
        extra_fields: Keys that the JSON object has in addition to those of the job.
    """
    output = JobOutput(client, client.job(number), lambda line: print_line(f"    {line.text}"))
    if not as_json:
        output.start()
    try:
        job = _follow(client, number, quiet=as_json)
        if not as_json:
            output.print_remaining()
    except KeyboardInterrupt:
        output.stop()
        print_note(f"stopped watching; job {number} is not affected")
        print_note(f"to continue: gridstead job watch {number}")
        print_note(f"to cancel the job: gridstead job cancel {number}")
        sys.exit(INTERRUPTED)
    output.stop()
    if as_json:
        emit_json({**job_to_json(job), **extra_fields})
        return job
    if output.error is not None:
        print_note(f"could not read all output: {output.error}")
    print_line(summary(job))
    return job


def wait_for_end(client: GridClient, number: int) -> None:
    """Wait until a job has ended. Ask again if the chain does not answer."""
    while True:
        with suppress(Transient):
            if client.job(number).state in COLD:
                return
        time.sleep(POLL_S)


def _follow(client: GridClient, number: int, *, quiet: bool) -> Job:
    """Wait until a job has ended, and return it.

    Print each new state, and a request to cancel the job, unless ``quiet``.
    """
    printed: tuple[JobState, bool] | None = None  # the state, and whether a request was made
    with Status("", console=stderr_console, spinner="dots") as status:
        while True:
            try:
                job = client.job(number)
            except Transient as error:
                status.update(Text(f"{error.message}; retrying"))
                time.sleep(POLL_S)
                continue
            current = (job.state, job.cancel_requested)
            if current != printed and not quiet:
                now = format_time_of_day(time.time())
                print_line(f"{now}  {job.state.name:<15} {describe(job)}")
                printed = current
            if job.state in COLD:
                return job
            status.update(Text(_status(client, job)))
            time.sleep(POLL_S)


def _status(client: GridClient, job: Job) -> str:
    """Return the status line of a job that has not ended."""
    description = f"job {job.id.number}: {describe(job)}"
    if job.state is not JobState.PENDING:
        cost = credits_text(cost_so_far(job, int(time.time())))
        return f"{description}, {cost} credits so far"
    reason = waiting_reason(client, job)
    return f"{description}: {reason}" if reason else description


def summary(job: Job) -> str:
    """Return a sentence with the job's final state, exit code and cost."""
    result = f"job {job.id.number} is {job.state.name}, exit code {shell_exit_code(job)}"
    reason = f" ({job.last_error})" if job.last_error else ""
    cost = credits_text(job.final_cost)
    escrow = credits_text(job.escrow)
    return f"{result}{reason}; cost {cost} of {escrow} credits; the rest was refunded"
