# SPDX-License-Identifier: Apache-2.0
"""The live view of one job: states with their times, output as it comes, cost so far."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

from rich.status import Status
from rich.text import Text

from gridstead.cli.client import GridClient, cost_so_far, exit_code, to_json, waiting_reason
from gridstead.cli.job_output import JobOutput
from gridstead.cli.output import credits_text, emit_json, errors, say, tell
from gridstead.domain.job import Job
from gridstead.domain.lifecycle import COLD, JobState
from gridstead.errors import Transient

POLL_S = 0.5
INTERRUPTED = 130

MEANINGS = {
    JobState.PENDING: "waits for a provider",
    JobState.META_SCHEDULED: "matched to a provider",
    JobState.SCHEDULED: "claimed; waits in the cluster",
    JobState.RUNNING: "runs",
    JobState.CANCELLED: "cancelled",
    JobState.FINISHED: "finished",
    JobState.FAILED: "failed",
    JobState.OUT_OF_CREDITS: "stopped at the end of its paid time",
    JobState.PANICKED: "lost by its provider; it costs nothing",
}


def clock(at: float) -> str:
    """Return a time of day as people read it, local time."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def moment(at: float) -> str:
    """Return day and time as people read them, local time; a dash for what has not happened."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else "-"


def watch(client: GridClient, number: int, *, as_json: bool) -> Job:
    """Show a job until it is cold and return it. An interrupt ends the program and leaves the job
    alone.
    """
    output = JobOutput(client, client.job(number), lambda line: say(f"    {line.text}"))
    if not as_json:
        output.start()
    try:
        job = _follow(client, number, quiet=as_json)
        if not as_json:
            output.drain()
    except KeyboardInterrupt:
        output.stop()
        tell(
            f"stopped watching; job {number} goes on: gridstead job watch {number}, gridstead job cancel {number}"
        )
        sys.exit(INTERRUPTED)
    output.stop()
    if as_json:
        emit_json(to_json(job))
        return job
    if output.error is not None:
        tell(f"the output could not be read to its end: {output.error}")
    say(summary(job))
    return job


def wait_for_end(client: GridClient, number: int) -> None:
    """Return when a job is cold, however often the chain does not answer."""
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
                status.update(Text(f"{error.message}; trying again"))
                time.sleep(POLL_S)
                continue
            if job.state is not seen:
                seen = job.state
                if not quiet:
                    say(f"{clock(time.time())}  {job.state.name:<15} {MEANINGS[job.state]}")
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
    """Return the last line of a job: how it ended and what it cost."""
    ended = f"job {job.id.number} is {job.state.name}, exit code {exit_code(job)}"
    cost = f"cost {credits_text(job.final_cost)} of {credits_text(job.escrow)} credits; the rest came back"
    reason = f" ({job.last_error})" if job.last_error else ""
    return f"{ended}{reason}; {cost}"
