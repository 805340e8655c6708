# SPDX-License-Identifier: Apache-2.0
"""`gridstead job`: look at jobs, cancel them, read their output."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

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
from gridstead.cli.job_output import JobOutput, JobStream, only, show, show_as_json, show_raw
from gridstead.cli.output import (
    credits_text,
    emit_done,
    emit_json,
    emit_record,
    emit_table,
    parse_credits,
)
from gridstead.cli.watch import INTERRUPTED, moment, wait_for_end
from gridstead.cli.watch import watch as watch_job
from gridstead.domain.lifecycle import COLD, JobState

if TYPE_CHECKING:
    from gridstead.adapters.chain.job_history import HistoryEvent

app = typer.Typer(help="Jobs: list, look at, cancel, read their output.", no_args_is_help=True)

_STATES = {
    "JobRequested": JobState.PENDING.name,
    "JobMatched": JobState.META_SCHEDULED.name,
    "JobUnmatched": JobState.PENDING.name,
    "JobClaimed": JobState.SCHEDULED.name,
    "JobStarted": JobState.RUNNING.name,
}


@app.command("list")
def list_(config: Config = None, as_json: Json = False) -> None:
    """List your jobs, newest last."""
    client = open_client(config)
    jobs = client.ledger.jobs(client.customer.job_numbers(), at_block=client.ledger.head())
    if as_json:
        emit_json([to_json(jobs[number]) for number in sorted(jobs)])
        return
    now = int(time.time())
    rows = [
        (
            n,
            j.name,
            j.state.name,
            moment(j.submitted_at),
            credits_text(cost_so_far(j, now)),
            credits_text(j.escrow),
        )
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
        emit_json(to_json(job) | {"waits_because": waiting_reason(client, job)})
        return
    record: dict[str, object] = {
        "job": job.id.number,
        "name": job.name,
        "state": job.state.name,
        "customer": job.customer,
        "provider": job.provider or "-",
        "submitted": moment(job.submitted_at),
        "started": moment(job.started_at),
        "ended": moment(job.ended_at),
        "price per minute": credits_text(job.price_per_min),
        "cost": credits_text(cost_so_far(job, int(time.time()))),
        "escrow": credits_text(job.escrow),
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
    steps = client.customer.job_history(wanted)
    if as_json:
        emit_json([to_record(step) for step in steps])
        return
    emit_table(
        ("STATE", "TIME", "BLOCK"),
        [(_state_after(m.event, m.numbers), moment(m.occurred_at), m.block) for m in steps],
    )


def to_record(step: HistoryEvent) -> dict[str, object]:
    """Return what happened to a job for machines. Units: wei, Unix seconds."""
    state = _state_after(step.event, step.numbers)
    record = {
        "event": step.event,
        "state": state,
        "block": step.block,
        "at": step.occurred_at,
        **step.numbers,
    }
    return record | ({"evidence": step.evidence} if step.evidence else {})


def _state_after(event: str, numbers: Mapping[str, int]) -> str:
    """Return the state that an event left, or the event if it left the state alone."""
    if event in {"JobSettled", "JobRefunded"}:
        return JobState(numbers["status"]).name
    return _STATES.get(event, event)


@app.command()
def cancel(number: JobNumber, config: Config = None, as_json: Json = False) -> None:
    """Cancel a job; what it used is billed, the rest comes back."""
    wanted = parse_job_number(number)
    client = open_client(config)
    client.job(wanted)
    client.customer.cancel_job(wanted)
    after = client.job(wanted)
    done = f"job {wanted} is being stopped by its provider"
    if after.state is JobState.CANCELLED:
        done = f"job {wanted} is cancelled; {credits_text(after.escrow - after.final_cost)} credits came back"
    emit_done(to_json(after), done, as_json=as_json)


@app.command()
def topup(
    number: JobNumber,
    credits_: Annotated[str, typer.Argument(metavar="CREDITS", help="How many more to lock.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Lock more credits for a job that is claimed or runs, so that it may run longer."""
    wanted, amount = parse_job_number(number), parse_credits(credits_)
    client = open_client(config)
    client.job(wanted)
    if client.customer.allowance() < amount:
        client.customer.allow(amount)
    client.customer.top_up(wanted, amount)
    done = f"{credits_text(amount)} more credits are locked for job {wanted}"
    emit_done(to_json(client.job(wanted)), done, as_json=as_json)


@app.command()
def watch(number: JobNumber, config: Config = None, as_json: Json = False) -> None:
    """Show a job's states, output and cost until it ends; Ctrl-C stops watching and leaves the job
    alone.
    """
    wanted = parse_job_number(number)
    watch_job(open_client(config), wanted, as_json=as_json)


@app.command()
def logs(
    number: JobNumber,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Stay until the job has ended.")
    ] = False,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Print what the job wrote as it is; your terminal acts on it."),
    ] = False,
    stream: Annotated[
        JobStream | None, typer.Option(help="Of its two streams print only this one.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print a job's output, control characters as escapes; only a workflow with `enableLogging:
    true` has one.
    """
    wanted = parse_job_number(number)
    client = open_client(config)
    job = client.job(wanted)
    print_line = show_as_json if as_json else show_raw if raw else show
    output = JobOutput(client, job, only(stream, print_line) if stream else print_line)
    try:
        if follow and job.state not in COLD:
            output.start()
            wait_for_end(client, wanted)
        output.drain()
    except KeyboardInterrupt:
        output.stop()
        sys.exit(INTERRUPTED)
    output.stop()
    if output.error is not None:
        raise output.error
