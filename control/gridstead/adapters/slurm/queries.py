# SPDX-License-Identifier: Apache-2.0
"""Queries with Slurm's commands, which run on the controller's host or on the login node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from gridstead.adapters.slurm import commands, failures
from gridstead.adapters.slurm.runner import Runner, read_output
from gridstead.domain.supervisor.attempt import AccountingSample, Attempt, ControllerSample
from gridstead.errors import SchedulerUnavailable
from gridstead.ports import Clock

_UNKNOWN_JOB = "Invalid job id specified"

Item = TypeVar("Item", int, str)


def list_jobs(runner: Runner, clock: Clock) -> ControllerSample:
    """Return the jobs that slurmctld lists now."""
    taken_at = clock.now()
    listing = read_output(runner, commands.squeue())
    return ControllerSample(taken_at=taken_at, attempts=commands.parse_squeue(listing))


def find(runner: Runner, slurm_job_id: int) -> Attempt | None:
    """Return the job with this id. Returns None if slurmctld does not list the job."""
    result = runner.run(commands.squeue_job(slurm_job_id))
    if result.exit_status != 0 and _UNKNOWN_JOB in result.stderr:
        return None
    if result.exit_status != 0 or "error:" in result.stderr:
        raise SchedulerUnavailable(
            f"could not find job {slurm_job_id}", detail=result.stderr.strip()[:500]
        )
    for attempt in commands.parse_squeue(result.stdout):
        if attempt.slurm_job_id == slurm_job_id:
            return attempt
    return None


def list_records(
    runner: Runner, clock: Clock, names: Iterable[str], *, since: int
) -> AccountingSample:
    """Return slurmdbd's records of the jobs with these names that were submitted since a time.

    The length of slurmctld's queue to slurmdbd is read before the records. If the queue is empty,
    the records are complete. Unit: ``since`` Unix seconds.
    """
    taken_at = clock.now()
    is_complete = _is_queue_empty(runner)
    rows: list[Attempt] = []
    for chunk in _chunks(sorted(set(names)), commands.NAMES_PER_COMMAND):
        listing = read_output(runner, commands.sacct(chunk, since=since))
        rows += commands.parse_sacct(listing)
    recent = [row for row in rows if row.submitted_at >= since]
    attempts = _with_exit_codes(runner, recent, since=since)
    return AccountingSample(taken_at=taken_at, is_complete=is_complete, attempts=tuple(attempts))


def associate(runner: Runner, address: str, *, account: str) -> None:
    """Create the association of a user with an account, unless the association exists.

    Raises:
        SchedulerUnavailable: If the association could not be created.
    """
    if _is_associated(runner, address, account):
        return
    result = runner.run(commands.associate(address, account=account))
    if not _is_associated(runner, address, account):
        output = f"{result.stdout} {result.stderr}".strip()[:500]
        raise SchedulerUnavailable(f"could not associate {address} with {account}", detail=output)


def _is_associated(runner: Runner, address: str, account: str) -> bool:
    listing = read_output(runner, commands.associations(address, account=account))
    return commands.parse_associated(listing, address, account=account)


def _is_queue_empty(runner: Runner) -> bool:
    try:
        return commands.parse_dbd_queue(read_output(runner, commands.sdiag())) == 0
    except SchedulerUnavailable:
        return False  # The records are still valid, but a record may be missing.


def _with_exit_codes(runner: Runner, rows: list[Attempt], *, since: int) -> Iterator[Attempt]:
    """Yield the rows with their correct exit codes, and what is known of their failed steps.

    sacct's text output subtracts 128 from large exit codes. So the exit codes of failed jobs are
    read again from sacct's JSON output.
    """
    failed_ids: set[int] = set()
    for row in rows:
        has_signal = row.exit_code & 0xFF != 0
        if row.state == "FAILED" and not has_signal:
            failed_ids.add(row.slurm_job_id)
    exits: dict[tuple[int, int], failures.JobExit] = {}
    failed_steps: dict[int, int] = {}
    for chunk in _chunks(sorted(failed_ids), commands.NAMES_PER_COMMAND):
        listing = read_output(runner, failures.sacct_json(chunk, since=since))
        exits |= failures.parse_sacct_json(listing)
        steps_listing = read_output(runner, failures.sacct_steps(chunk, since=since))
        failed_steps |= failures.parse_failed_steps(steps_listing)
    for row in rows:
        job_exit = exits.get((row.slurm_job_id, row.submitted_at))
        if job_exit is None:
            yield row
            continue
        yield replace(
            row,
            exit_code=job_exit.wait_status,
            failed_step=failed_steps.get(row.slurm_job_id),
            is_step_out_of_memory=job_exit.is_step_out_of_memory,
        )


def _chunks(items: list[Item], size: int) -> Iterator[list[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
