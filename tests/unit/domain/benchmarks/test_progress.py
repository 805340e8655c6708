# SPDX-License-Identifier: Apache-2.0
"""Tests of the state of a run."""

import json

import pytest

from gridstead.domain.benchmarks.progress import (
    Progress,
    RunState,
    parse_progress,
    progress_text,
    run_status,
)
from gridstead.errors import UnexpectedOutput

RUNNING = Progress(started_at=100, steps_total=4, steps_done=1, steps_running=("a", "b"))
ENDED = Progress(started_at=100, ended_at=160, steps_total=4, steps_done=4, steps_failed=1)
FAILED = Progress(started_at=100, ended_at=160, failure="no node accepts jobs")


@pytest.mark.parametrize(
    ("progress", "is_requested", "is_running", "state"),
    [
        (None, False, False, RunState.NONE),
        (None, True, False, RunState.REQUESTED),
        (ENDED, True, False, RunState.REQUESTED),
        (None, False, True, RunState.RUNNING),
        (RUNNING, True, True, RunState.RUNNING),
        (RUNNING, False, False, RunState.INTERRUPTED),
        (ENDED, False, False, RunState.SUCCEEDED),
        (FAILED, False, False, RunState.FAILED),
    ],
)
def test_the_state_follows_from_the_files_and_the_lock(progress, is_requested, is_running, state):
    status = run_status(progress, is_requested=is_requested, is_running=is_running)

    assert status.state is state
    expected = None if state in {RunState.NONE, RunState.REQUESTED} else progress
    assert status.progress == expected


def test_the_progress_of_an_earlier_run_is_not_that_of_the_current_one():
    assert run_status(ENDED, is_requested=True, is_running=True).progress is None


@pytest.mark.parametrize("progress", [RUNNING, ENDED, FAILED])
def test_a_progress_is_read_as_it_was_written(progress):
    assert parse_progress(progress_text(progress), source="p") == progress


@pytest.mark.parametrize("text", ["", "[]", "{}", "null"])
def test_a_text_that_is_not_a_progress_is_an_error(text):
    with pytest.raises(UnexpectedOutput, match="output of p"):
        parse_progress(text, source="p")


def test_a_number_that_is_a_word_is_an_error():
    document = json.loads(progress_text(RUNNING)) | {"steps_total": "many"}

    with pytest.raises(UnexpectedOutput):
        parse_progress(json.dumps(document), source="p")
