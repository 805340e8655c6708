# SPDX-License-Identifier: Apache-2.0
"""The live view of one job: states with their times, output as it comes, cost so far."""

from __future__ import annotations

import threading
import time

from rich.status import Status

from gridstead.cli.client import Client, cost_so_far, exit_code, to_json
from gridstead.cli.output import console, credits_text, emit_json, errors
from gridstead.domain.job import Job
from gridstead.domain.lifecycle import COLD, JobState
from gridstead.errors import GridsteadError, Transient

POLL_S = 0.5
LOG_GRACE_S = 1.5

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


def watch(client: Client, number: int, *, as_json: bool) -> Job | None:
    """Show a job until it is cold and return it; None if the user stopped watching, which leaves the job alone."""
    output = threading.Thread(target=_show_output, args=(client, number), daemon=True)
    if not as_json:
        output.start()
    try:
        job = _follow(client, number, quiet=as_json)
    except KeyboardInterrupt:
        errors.print(
            f"\nstopped watching; job {number} goes on: gridstead job get {number}, gridstead job cancel {number}"
        )
        return None
    if as_json:
        emit_json(to_json(job))
        return job
    output.join(LOG_GRACE_S)
    console.print(summary(job))
    return job


def _follow(client: Client, number: int, *, quiet: bool) -> Job:
    seen: JobState | None = None
    with Status("", console=errors, spinner="dots") as status:
        while True:
            try:
                job = client.job(number)
            except Transient as error:
                status.update(f"{error.message}; trying again")
                time.sleep(POLL_S)
                continue
            if job.state is not seen:
                seen = job.state
                if not quiet:
                    console.print(f"{clock(time.time())}  {job.state.name:<15} {MEANINGS[job.state]}")
            if job.state in COLD:
                return job
            spent = credits_text(cost_so_far(job, int(time.time())))
            status.update(f"job {number}: {MEANINGS[job.state]}, {spent} credits so far")
            time.sleep(POLL_S)


def summary(job: Job) -> str:
    """Return the last line of a job: how it ended and what it cost."""
    code = exit_code(job)
    ended = f"job {job.id.number} is {job.state.name}, exit code {code}"
    cost = f"cost {credits_text(job.final_cost)} of {credits_text(job.lock)} credits; the rest came back"
    reason = f" ({job.last_error})" if job.last_error else ""
    return f"{ended}{reason}; {cost}"


def _show_output(client: Client, number: int) -> None:
    """Print the job's output line by line; ends with the process."""
    while True:
        try:
            for line in read_log(client, number):
                console.print(f"    {line}", markup=False, soft_wrap=True)
        except GridsteadError as error:
            errors.print(f"no output for now: {error}", markup=False, soft_wrap=True)
            return


def read_log(client: Client, number: int):  # type: ignore[no-untyped-def]  # noqa: ANN201 - an iterator of str
    """Yield the lines of a job's output from the first one; does not end by itself."""
    from gridstead.adapters.channel import Peer  # noqa: PLC0415 - takes a second to import
    from gridstead.adapters.logger import LoggerClient  # noqa: PLC0415

    peer = client.settings.logger
    logger = LoggerClient(Peer(address=peer.endpoint, ca=peer.ca_file))
    lines = logger.read(client.wallet.address, f"0x{number:064x}", now=int(time.time()), sign=client.wallet.sign_text)
    for data, _timestamp_ns in lines:
        yield "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in data.decode(errors="replace"))
