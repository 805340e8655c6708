# SPDX-License-Identifier: Apache-2.0
"""How far a run of the benchmarks is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from gridstead.errors import UnexpectedOutput


class RunState(StrEnum):
    """The state of the last run."""

    NONE = "none"  # there was no run
    REQUESTED = "requested"  # a run was requested, but has not started
    RUNNING = "running"
    SUCCEEDED = "succeeded"  # it wrote a report, perhaps with reasons for labels that are left out
    FAILED = "failed"  # it wrote no report
    INTERRUPTED = "interrupted"  # its process ended without a result


ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.INTERRUPTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is.

    Attributes:
        started_at: Unix seconds.
        ended_at: Unix seconds. 0 if the run has not ended.
        steps_total: The number of its steps. 0 until they are planned.
        steps_done: The number of steps that have ended, including the failed ones.
        steps_failed: The number of steps that have failed.
        steps_running: The names of the steps that were submitted to Slurm and have not ended.
        failure: Why the run failed. Empty if it did not.
    """

    started_at: int
    ended_at: int = 0
    steps_total: int = 0
    steps_done: int = 0
    steps_failed: int = 0
    steps_running: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The last run.

    Attributes:
        state: Its state.
        progress: How far it is. None in states ``none`` and ``requested``, and for a moment at the
            start of a run.
    """

    state: RunState
    progress: Progress | None = None


def run_status(progress: Progress | None, *, is_requested: bool, is_running: bool) -> RunStatus:
    """Return the state of the last run.

    Args:
        progress: The stored progress of the last run. None if there was none.
        is_requested: Whether a request waits.
        is_running: Whether a process runs the benchmarks.
    """
    if is_running:
        # The progress of an earlier run is replaced soon after the start.
        current = progress if progress is not None and not progress.ended_at else None
        return RunStatus(state=RunState.RUNNING, progress=current)
    if is_requested:
        return RunStatus(state=RunState.REQUESTED)
    if progress is None:
        return RunStatus(state=RunState.NONE)
    if not progress.ended_at:
        return RunStatus(state=RunState.INTERRUPTED, progress=progress)
    state = RunState.FAILED if progress.failure else RunState.SUCCEEDED
    return RunStatus(state=state, progress=progress)


def progress_text(progress: Progress) -> str:
    """Return the text of a progress: JSON with its attributes as keys."""
    return json.dumps(asdict(progress), indent=1) + "\n"


def parse_progress(text: str, *, source: str) -> Progress:
    """Return the progress that a text describes.

    Args:
        text: The text of ``progress_text``.
        source: Where the text is from, for the error.

    Raises:
        UnexpectedOutput: If the text is not a progress.
    """
    try:
        document = json.loads(text)
        return Progress(
            started_at=int(document["started_at"]),
            ended_at=int(document["ended_at"]),
            steps_total=int(document["steps_total"]),
            steps_done=int(document["steps_done"]),
            steps_failed=int(document["steps_failed"]),
            steps_running=tuple(map(str, document["steps_running"])),
            failure=str(document["failure"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnexpectedOutput(source, text) from error
