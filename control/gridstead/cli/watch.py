# SPDX-License-Identifier: Apache-2.0
"""Shows one job until it ends: its states with their times, its output, its cost."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

from rich.status import Status
from rich.text import Text

from gridstead.cli.client import GridClient, cost_so_far, exit_code, to_json, waiting_reason
from gridstead.cli.job_output import JobOutput
from gridstead.cli.output import credits_text, emit_json, errors, print_line, print_note
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.errors import Transient

POLL_S = 0.5
INTERRUPTED = 130

MEANINGS = {
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


def clock(timestamp: float) -> str:
    """Return the time of day, local time."""
    return time.strftime("%H:%M:%S", time.localtime(timestamp))


def moment(timestamp: float) -> str:
    """Return date and time, local time; a dash for 0."""
    if not timestamp:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp))


def watch(client: GridClient, number: int, *, as_json: bool) -> Job:
    """Show a job until it has ended, and return it. Ctrl-C exits, but does not stop the job."""
    output = JobOutput(client, client.job(number), lambda line: print_line(f"    {line.text}"))
    if not as_json:
        output.start()
    try:
        job = _follow(client, number, quiet=as_json)
        if not as_json:
            output.drain()
    except KeyboardInterrupt:
        output.stop()
        print_note(f"stopped watching; job {number} is not affected")
        print_note(f"to continue: gridstead job watch {number}")
        print_note(f"to cancel the job: gridstead job cancel {number}")
        sys.exit(INTERRUPTED)
    output.stop()
    if as_json:
        emit_json(to_json(job))
        return job
    if output.error is not None:
        print_note(f"could not read all output: {output.error}")
    print_line(summary(job))
    return job


def wait_for_end(client: GridClient, number: int) -> None:
    """Return when a job has ended; retries as long as the chain does not answer."""
    while True:
        with suppress(Transient):
            if client.job(number).state in COLD:
                return
        time.sleep(POLL_S)


def _follow(client: GridClient, number: int, *, quiet: bool) -> Job:
    seen: JobState | None = None
    with Status("", console=errors, spinner="dots") as status:
        while True:
            try:
                job = client.job(number)
            except Transient as error:
                status.update(Text(f"{error.message}; retrying"))
                time.sleep(POLL_S)
                continue
            if job.state is not seen:
                seen = job.state
                if not quiet:
                    print_line(f"{clock(time.time())}  {job.state.name:<15} {MEANINGS[job.state]}")
            if job.state in COLD:
                return job
            status.update(Text(_status(client, job)))
            time.sleep(POLL_S)


def _status(client: GridClient, job: Job) -> str:
    if job.state is JobState.PENDING:
        reason = waiting_reason(client, job)
        return f"job {job.id.number}: {MEANINGS[job.state]}" + (f": {reason}" if reason else "")
    spent = credits_text(cost_so_far(job, int(time.time())))
    return f"job {job.id.number}: {MEANINGS[job.state]}, {spent} credits so far"


def summary(job: Job) -> str:
    """Return a sentence with the job's final state, exit code and cost."""
    ended = f"job {job.id.number} is {job.state.name}, exit code {exit_code(job)}"
    reason = f" ({job.last_error})" if job.last_error else ""
    cost, escrow = credits_text(job.final_cost), credits_text(job.escrow)
    return f"{ended}{reason}; cost {cost} of {escrow} credits; the rest was refunded"
