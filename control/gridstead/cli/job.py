# SPDX-License-Identifier: Apache-2.0
"""`gridstead job`: look at jobs, cancel them, read their output."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Annotated

import typer

from gridstead.cli.client import (
    Config,
    JobNumber,
    Json,
    cost_so_far,
    exit_code,
    open_client,
    parse_job_number,
    to_json,
    waiting_reason,
)
from gridstead.cli.output import console, credits_text, emit_json, emit_record, emit_table, parse_credits
from gridstead.cli.watch import clock, read_log
from gridstead.cli.watch import watch as watch_job
from gridstead.domain.lifecycle import COLD, JobState

app = typer.Typer(help="Jobs: list, look at, cancel, read their output.", no_args_is_help=True)

_STATES = {
    "JobRequested": JobState.PENDING.name,
    "JobMatched": JobState.META_SCHEDULED.name,
    "JobUnmatched": JobState.PENDING.name,
    "JobClaimed": JobState.SCHEDULED.name,
    "JobStarted": JobState.RUNNING.name,
}
FIRST_LINE_S = 3.0
QUIET_S = 1.0


@app.command("list")
def list_(config: Config = None, as_json: Json = False) -> None:
    """List your jobs, newest last."""
    client = open_client(config)
    jobs = client.ledger.jobs(client.customer.job_numbers(), at=client.ledger.head())
    if as_json:
        emit_json([to_json(jobs[number]) for number in sorted(jobs)])
        return
    now = int(time.time())
    rows = [
        (n, j.name, j.state.name, clock(j.submitted_at), credits_text(cost_so_far(j, now)), credits_text(j.lock))
        for n, j in sorted(jobs.items())
    ]
    emit_table(("JOB", "NAME", "STATE", "SUBMITTED", "COST", "LOCK"), rows)


@app.command()
def get(number: JobNumber, config: Config = None, as_json: Json = False) -> None:
    """Show one job."""
    wanted = parse_job_number(number)
    client = open_client(config)
    job = client.job(wanted)
    if as_json:
        emit_json(to_json(job))
        return
    record: dict[str, object] = {
        "job": job.id.number,
        "name": job.name,
        "state": job.state.name,
        "customer": job.customer,
        "provider": job.provider or "-",
        "submitted": clock(job.submitted_at),
        "started": clock(job.started_at) if job.started_at else "-",
        "ended": clock(job.ended_at) if job.ended_at else "-",
        "price per minute": credits_text(job.price_per_min),
        "cost": credits_text(cost_so_far(job, int(time.time()))),
        "lock": credits_text(job.lock),
    }
    reason = waiting_reason(client, job)
    if reason:
        record["waits because"] = reason
    if job.state in COLD:
        record["exit code"] = exit_code(job)
    if job.last_error:
        record["error"] = job.last_error
    emit_record(record)


@app.command()
def history(number: JobNumber, config: Config = None, as_json: Json = False) -> None:
    """Show what happened to a job and when."""
    wanted = parse_job_number(number)
    client = open_client(config)
    client.job(wanted)
    steps = [(_state_after(m.event, m.numbers), m) for m in client.customer.milestones(wanted)]
    if as_json:
        emit_json([{"event": m.event, "state": s, "block": m.block, "at": m.at, **m.numbers} for s, m in steps])
        return
    emit_table(("STATE", "TIME", "BLOCK"), [(s, clock(m.at), m.block) for s, m in steps])


def _state_after(event: str, numbers: Mapping[str, int]) -> str:
    """Return the state that an event left, or the event if it left the state alone."""
    if event in {"JobSettled", "JobRefunded"}:
        return JobState(numbers["status"]).name
    return _STATES.get(event, event)


@app.command()
def cancel(number: JobNumber, config: Config = None) -> None:
    """Cancel a job; what it used is billed, the rest comes back."""
    wanted = parse_job_number(number)
    client = open_client(config)
    client.customer.cancel_job(wanted)
    after = client.job(wanted)
    if after.state is JobState.CANCELLED:
        console.print(f"job {wanted} is cancelled; {credits_text(after.lock - after.final_cost)} credits came back")
    else:
        console.print(f"job {wanted} is being stopped by its provider")


@app.command()
def topup(
    number: JobNumber,
    credits_: Annotated[str, typer.Argument(metavar="CREDITS", help="How many more to lock.")],
    config: Config = None,
) -> None:
    """Lock more credits for a job that is claimed or runs, so that it may run longer."""
    wanted, amount = parse_job_number(number), parse_credits(credits_)
    client = open_client(config)
    if client.customer.allowance() < amount:
        client.customer.allow(amount)
    client.customer.top_up(wanted, amount)
    console.print(f"{credits_text(amount)} more credits are locked for job {wanted}")


@app.command()
def watch(number: JobNumber, config: Config = None, as_json: Json = False) -> None:
    """Show a job's states, output and cost until it ends."""
    watch_job(open_client(config), parse_job_number(number), as_json=as_json)


@app.command()
def logs(
    number: JobNumber,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay for more until interrupted.")] = False,
    config: Config = None,
) -> None:
    """Print a job's output."""
    wanted = parse_job_number(number)
    client = open_client(config)
    client.job(wanted)
    if follow:
        for line in read_log(client, wanted):
            console.print(line, markup=False, soft_wrap=True)
        return
    last = [time.monotonic() + FIRST_LINE_S]

    def show() -> None:
        for line in read_log(client, wanted):
            console.print(line, markup=False, soft_wrap=True)
            last[0] = time.monotonic() + QUIET_S

    reader = threading.Thread(target=show, daemon=True)
    reader.start()
    # The wire's stream has no end; a second without a new line is taken for it.
    while reader.is_alive() and time.monotonic() < last[0]:
        reader.join(0.1)
