# SPDX-License-Identifier: Apache-2.0
"""Checks after a soak: no job is lost, runs or is settled twice, or is billed wrongly.

A job is *lost* if it did not run, was not settled, or was settled with another state than the exit
code of its script requires. It is *doubled* if it ran twice or was settled twice. It is *misbilled*
if its cost or its fee differs from ``billing_oracle``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tests import billing_oracle

from gridstead.domain.jobs.lifecycle import JobState

NOT_SETTLED = "not settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakJob:
    """A job that a customer requested.

    Attributes:
        script_number: The number in the job's script.
        run_s: How long the script runs, seconds.
        exit_code: The exit code of the script.
    """

    script_number: int
    run_s: int
    exit_code: int

    @property
    def end_state(self):
        """The state with which the job must be settled."""
        return JobState.FAILED if self.exit_code else JobState.FINISHED


@dataclass(slots=True, kw_only=True)
class Faults:
    """The faults, each as a line of text that begins with the number of the job or an address."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    misbilled: list[str] = field(default_factory=list)

    def __bool__(self):
        return bool(self.lost or self.doubled or self.misbilled)


def check_jobs(jobs, traces, runs_by_number, prices_by_provider, resources):
    """Return the faults of all jobs.

    Args:
        jobs: The requested jobs, by number.
        traces: The events of the jobs, by number.
        runs_by_number: What Slurm ran for each job.
        prices_by_provider: The prices of each provider, by address.
        resources: The resources of each job.
    """
    faults = Faults()
    for number, job in jobs.items():
        trace, runs = traces.get(number), runs_by_number.get(number, [])
        loss = _loss(job, trace, runs)
        if loss:
            faults.lost.append(f"{number}: {loss}")
        if trace is None:
            continue
        if len(runs) > 1 or len(trace.ends) > 1:
            text = f"{number}: ran {len(runs)} times, settled {len(trace.ends)} times"
            faults.doubled.append(text)
        if trace.ends and runs:
            price = billing_oracle.price(resources, prices_by_provider[trace.provider])
            error = _billing_error(trace, runs[0], price)
            if error:
                faults.misbilled.append(f"{number}: {error}")
    return faults


def _loss(job, trace, runs):
    """Return why a job counts as lost. Returns an empty text if it does not."""
    if trace is None:
        return "the chain has no event of its request"
    if not trace.ends:
        return NOT_SETTLED
    if not runs:
        return f"did not run, settled as {trace.ends[-1].state.name}"
    if trace.ends[-1].state is not job.end_state:
        return f"settled as {trace.ends[-1].state.name} instead of {job.end_state.name}"
    if runs[0].script_number != job.script_number:
        return f"ran script {runs[0].script_number} instead of {job.script_number}"
    return ""


def _billing_error(trace, run, price):
    """Return how the bill of a job is wrong. Returns an empty text if it is right."""
    if trace.price_per_min != price:
        return f"the price is {trace.price_per_min} instead of {price} wei per minute"
    if run.ended_at is None:
        return "settled while it was running"
    bills = [billing_oracle.bill(trace.escrow, seconds, price) for seconds in run.billable_s]
    amounts = [(bill.cost, bill.fee) for bill in bills]
    end = trace.ends[0]
    if (end.cost, end.fee) not in amounts:
        cost, fee = amounts[0]
        return f"cost and fee are {end.cost} and {end.fee} instead of {cost} and {fee}"
    return ""


def expected_changes(traces):
    """Return by how much the credits of each customer and provider must have changed, wei.

    The credits of jobs that are not settled are in escrow.
    """
    changes = defaultdict(int)
    for trace in traces.values():
        if not trace.ends:
            changes[trace.customer] -= trace.escrow
        for end in trace.ends:
            changes[trace.customer] -= end.cost
            changes[trace.provider] += billing_oracle.earned(end.cost)
    return changes
