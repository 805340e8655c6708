# SPDX-License-Identifier: Apache-2.0
"""What both ways into Slurm ask of its commands, whichever host they run on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from gridstead.adapters.slurm import text
from gridstead.adapters.slurm.command import Runner, answer
from gridstead.domain.attempt import AccountingSample, Attempt, LiveSample
from gridstead.errors import SchedulerUnavailable
from gridstead.ports import Clock

_UNKNOWN_JOB = "Invalid job id specified"

Item = TypeVar("Item", int, str)


def live(runner: Runner, clock: Clock) -> LiveSample:
    """Return what slurmctld lists now."""
    taken_at = clock.now()
    return LiveSample(taken_at=taken_at, attempts=text.parse_squeue(answer(runner, text.squeue())))


def find(runner: Runner, slurm_job_id: int) -> Attempt | None:
    """Return the job that slurmctld lists under this id, None if it lists none."""
    outcome = runner.run(text.squeue_one(slurm_job_id))
    if outcome.exit_status != 0 and _UNKNOWN_JOB in outcome.stderr:
        return None
    if outcome.exit_status != 0 or "error:" in outcome.stderr:
        raise SchedulerUnavailable(
            f"could not look up {slurm_job_id}", detail=outcome.stderr.strip()[:500]
        )
    found = [job for job in text.parse_squeue(outcome.stdout) if job.slurm_job_id == slurm_job_id]
    return found[0] if found else None


def accounting(
    runner: Runner, clock: Clock, names: Iterable[str], *, since: int
) -> AccountingSample:
    """Return what slurmdbd has under these names.

    The queue is looked at first: what was in the database when the queue was empty cannot be missed
    afterwards.
    """
    taken_at = clock.now()
    complete = _queue_is_empty(runner)
    rows: list[Attempt] = []
    for chunk in _chunks(sorted(set(names)), text.NAMES_PER_COMMAND):
        rows += text.parse_sacct(answer(runner, text.sacct(chunk, since=since)))
    attempts = _mend_exit_codes(
        runner, [row for row in rows if row.submitted_at >= since], since=since
    )
    return AccountingSample(taken_at=taken_at, complete=complete, attempts=tuple(attempts))


def associate(runner: Runner, address: str, *, account: str) -> None:
    """Make the association unless it is there.

    Raises:
        SchedulerUnavailable: It could not be made.
    """
    if _is_associated(runner, address, account):
        return
    outcome = runner.run(text.associate(address, account=account))
    if not _is_associated(runner, address, account):
        told = f"{outcome.stdout} {outcome.stderr}".strip()[:500]
        raise SchedulerUnavailable(f"could not associate {address} with {account}", detail=told)


def _is_associated(runner: Runner, address: str, account: str) -> bool:
    listing = answer(runner, text.associations(address, account=account))
    return text.parse_associated(listing, address, account=account)


def _queue_is_empty(runner: Runner) -> bool:
    try:
        return text.parse_dbd_queue(answer(runner, text.sdiag())) == 0
    except SchedulerUnavailable:
        return False  # what slurmdbd has is true all the same; only its silence says nothing


def _mend_exit_codes(runner: Runner, rows: list[Attempt], *, since: int) -> Iterator[Attempt]:
    """Yield the rows with their true exit codes: sacct's text takes 128 off the large ones, so any
    failure may lie.
    """
    doubtful = {
        row.slurm_job_id for row in rows if row.state == "FAILED" and row.exit_code & 0xFF == 0
    }
    codes: dict[tuple[int, int], int] = {}
    for chunk in _chunks(sorted(doubtful), text.NAMES_PER_COMMAND):
        codes |= text.parse_sacct_json(answer(runner, text.sacct_json(chunk, since=since)))
    for row in rows:
        if row.slurm_job_id in doubtful:
            yield replace(
                row, exit_code=codes.get((row.slurm_job_id, row.submitted_at), row.exit_code)
            )
        else:
            yield row


def _chunks(items: list[Item], size: int) -> Iterator[list[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
