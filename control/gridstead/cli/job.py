# SPDX-License-Identifier: Apache-2.0
"""`gridstead job`: lists, shows, explains, cancels and tops up jobs, and prints their output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from gridstead.cli.client import (
    cost_so_far,
    job_to_json,
    open_client,
    parse_job_number,
    queue_view_answer,
    shell_exit_code,
    waiting_reason,
)
from gridstead.cli.job_output import (
    JobOutput,
    JobStream,
    OutputLine,
    filter_stream,
    print_as_json,
    print_escaped,
    print_raw,
)
from gridstead.cli.options import Config, JobNumber, Json
from gridstead.cli.output import (
    credits_text,
    emit_json,
    emit_record,
    emit_result,
    emit_table,
    parse_credits,
)
from gridstead.cli.waiting import print_explanation
from gridstead.cli.watch import INTERRUPTED, format_time, wait_for_end
from gridstead.cli.watch import watch as watch_job
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import COLD, JobState

if TYPE_CHECKING:
    from gridstead.adapters.chain.job_history import HistoryEvent

app = typer.Typer(no_args_is_help=True)

_STATE_AFTER_EVENT = {
    "JobRequested": JobState.PENDING.name,
    "JobMatched": JobState.META_SCHEDULED.name,
    "JobUnmatched": JobState.PENDING.name,
    "JobClaimed": JobState.SCHEDULED.name,
    "JobStarted": JobState.RUNNING.name,
}


@app.command("list")
def list_(config: Config = None, as_json: Json = False) -> None:
    """List your jobs, oldest first."""
    client = open_client(config)
    job_ids = map(client.customer.job_id, client.customer.job_numbers())
    jobs = client.ledger.jobs(job_ids, at_block=client.ledger.head())
    if as_json:
        emit_json([job_to_json(jobs[job_id]) for job_id in sorted(jobs)])
        return
    now = int(time.time())
    rows = []
    for job_id, job in sorted(jobs.items()):
        cost = credits_text(cost_so_far(job, now))
        escrow = credits_text(job.escrow)
        submitted_at = format_time(job.submitted_at)
        rows.append((job_id.number, job.name, job.state.name, submitted_at, cost, escrow))
    emit_table(("JOB", "NAME", "STATE", "SUBMITTED", "COST", "ESCROW"), rows)


@app.command()
def get(number: JobNumber, config: Config = None, as_json: Json = False) -> None:
    """Show the state, times, provider, cost and escrow of a job."""
    job_number = parse_job_number(number)
    client = open_client(config)
    job = client.job(job_number)
    if as_json:
        emit_json(job_to_json(job) | {"waits_because": waiting_reason(client, job)})
        return
    record: dict[str, object] = {
        "job": job.id.number,
        "name": job.name,
        "state": job.state.name,
        "customer": job.customer,
        "provider": job.provider or "-",
        "submitted": format_time(job.submitted_at),
        "started": format_time(job.started_at),
        "ended": format_time(job.ended_at),
        **_cancel_request(job),
        "price per minute": credits_text(job.price_per_min),
        "cost": credits_text(cost_so_far(job, int(time.time()))),
        "escrow": credits_text(job.escrow),
    }
    reason = waiting_reason(client, job)
    if reason:
        record["waits because"] = reason
    if job.state in COLD:
        record["exit code"] = shell_exit_code(job)
    if job.last_error:
        record["error"] = job.last_error
    emit_record(record)


def _cancel_request(job: Job) -> dict[str, object]:
    """Return the line about the customer's request to cancel the job; empty without one."""
    if not job.cancel_requested:
        return {}
    return {"cancel requested": format_time(job.cancel_requested_at)}


@app.command()
def why(number: JobNumber, config: Config = None, as_json: Json = False) -> None:
    """Explain why a job waits for a provider, with figures.

    The command prints how many providers each condition excludes, and what is missing at the
    provider that is closest to the condition. Then it prints an estimate of how many jobs are
    matched before this one. If the job has a reservation, it prints when the job is expected to
    start.

    What you can do: if all providers are too small, or none has a required label, cancel the job
    and submit it with fewer resources or other labels. If all are too expensive, cancel the job and
    submit it with more credits. If providers are full, rest or are excluded for a while, wait.

    The command asks the meta-scheduler's queue view, so `queue_url` must be set in your settings
    file. If the job is not pending, the command prints only its state.

    \b
      gridstead job why 7
      gridstead job why 7 --json
    """  # noqa: D301 - Click does not wrap the paragraph after a backspace character
    job_number = parse_job_number(number)
    client = open_client(config)
    job = client.job(job_number)
    if job.state is not JobState.PENDING:
        record = {"number": job_number, "state": job.state.name, "waits": False, "why": None}
        sentence = f"job {job_number} is {job.state.name}: it does not wait for a provider"
        emit_result(record, sentence, as_json=as_json)
        return
    answer = queue_view_answer(client, job)
    if as_json:
        emit_json(
            {
                "number": job_number,
                "state": job.state.name,
                "waits": True,
                "why": answer.model_dump(),
            }
        )
        return
    print_explanation(job_number, answer)


@app.command()
def history(number: JobNumber, config: Config = None, as_json: Json = False) -> None:
    """Show the events of a job on the chain: the state after each event, its time and its block.

    For an event that does not change the state, such as JobToppedUp, the name of the event is shown
    in place of the state.
    """
    job_number = parse_job_number(number)
    client = open_client(config)
    client.job(job_number)
    events = client.customer.job_history(job_number)
    if as_json:
        emit_json(list(map(history_event_to_json, events)))
        return
    rows = []
    for event in events:
        state = _state_after(event.event, event.numbers)
        rows.append((state, format_time(event.occurred_at), event.block))
    emit_table(("STATE", "TIME", "BLOCK"), rows)


def history_event_to_json(event: HistoryEvent) -> dict[str, object]:
    """Return a history event as a JSON object. Units: wei, Unix seconds."""
    record: dict[str, object] = {
        "event": event.event,
        "state": _state_after(event.event, event.numbers),
        "block": event.block,
        "at": event.occurred_at,
        **event.numbers,
    }
    if event.evidence:
        record["evidence"] = event.evidence
    return record


def _state_after(event: str, numbers: Mapping[str, int]) -> str:
    """Return the state of a job after an event.

    Returns the name of the event if the event does not change the state.
    """
    if event in {"JobSettled", "JobRefunded"}:
        return JobState(numbers["status"]).name
    return _STATE_AFTER_EVENT.get(event, event)


@app.command()
def cancel(number: JobNumber, config: Config = None, as_json: Json = False) -> None:
    """Cancel a job. Its running time is billed, and the rest of its escrow is refunded.

    A job that a provider has claimed ends when its provider has stopped it.
    """
    job_number = parse_job_number(number)
    client = open_client(config)
    client.job(job_number)
    client.customer.cancel_job(job_number)
    job = client.job(job_number)
    sentence = f"job {job_number} is cancelled; its provider stops it"
    if job.bill_until is not None:
        sentence = f"{sentence}, and bills at most its run time until this request"
    if job.state is JobState.CANCELLED:
        refund = credits_text(job.escrow - job.final_cost)
        sentence = f"job {job_number} is cancelled; {refund} credits were refunded"
    emit_result(job_to_json(job), sentence, as_json=as_json)


@app.command()
def topup(
    number: JobNumber,
    credits_: Annotated[str, typer.Argument(metavar="CREDITS", help="Number of credits to add.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Add credits to the escrow of a claimed or running job, so that it can run longer."""
    job_number = parse_job_number(number)
    amount = parse_credits(credits_)
    client = open_client(config)
    client.job(job_number)
    if client.customer.allowance() < amount:
        client.customer.allow(amount)
    client.customer.top_up(job_number, amount)
    sentence = f"added {credits_text(amount)} credits to the escrow of job {job_number}"
    emit_result(job_to_json(client.job(job_number)), sentence, as_json=as_json)


@app.command()
def watch(number: JobNumber, config: Config = None, as_json: Json = False) -> None:
    """Show the states, output and cost of a job until the job ends.

    Ctrl-C stops this command, but not the job.
    """
    job_number = parse_job_number(number)
    watch_job(open_client(config), job_number, as_json=as_json)


@app.command()
def logs(
    number: JobNumber,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Continue to print new output until the job has ended."
        ),
    ] = False,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Do not escape control characters. Your terminal interprets them."
        ),
    ] = False,
    stream: Annotated[
        JobStream | None, typer.Option(help="Print only stdout or only stderr.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print the output of a job. Control characters are escaped.

    Output is stored only if the workflow has `enableLogging: true`. Lines that start with
    `[gridstead] ` say when a step begins and ends. They are printed to stderr.
    """
    job_number = parse_job_number(number)
    client = open_client(config)
    job = client.job(job_number)
    print_output: Callable[[OutputLine], None] = print_raw if raw else print_escaped
    if as_json:
        print_output = print_as_json
    if stream:
        print_output = filter_stream(stream, print_output)
    output = JobOutput(client, job, print_output)
    try:
        if follow and job.state not in COLD:
            output.start()
            wait_for_end(client, job_number)
        output.print_remaining()
    except KeyboardInterrupt:
        output.stop()
        sys.exit(INTERRUPTED)
    output.stop()
    if output.error is not None:
        raise output.error
