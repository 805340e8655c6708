# SPDX-License-Identifier: Apache-2.0
"""Tests of mutants. A mutant is a valid workflow after random changes.

The mutants are workflow files, or workflows as a client sends them to a server. Each mutant must be
accepted, or refused with useful messages. The mutants of this file and the requests in
test_hostile_graphql.py and test_hostile_grpc.py (tests/adapters/rpc) are ten thousand cases in
total.
"""

from __future__ import annotations

import time
from random import Random

import pytest
from tests.fakes.effects import record_effects
from tests.unit.workflow.all_fields import HTTP_WORKFLOW, S3_WORKFLOW
from tests.unit.workflow.mutants import mutant, mutant_file
from tests.unit.workflow.random_workflows import DIVISOR, fetch_module, random_mapping
from tests.unit.workflow.strategies import problems_of

from gridstead.workflow.parse import check_workflow, from_graphql
from gridstead.workflow.reading import MAX_PROBLEMS
from gridstead.workflow.render import render

MUTANT_COUNT = 2500 // DIVISOR
VALID_COUNT = 400
MAX_CHARS = 3000  # the limit of a valid workflow, so that the test is fast
MAX_CPU_S = 2  # most workflows take 2 ms
MAX_MESSAGE_CHARS = 100_000


@pytest.fixture(scope="module")
def valid_mappings():
    mappings = [HTTP_WORKFLOW, S3_WORKFLOW]
    for seed in range(VALID_COUNT):
        mapping = random_mapping(Random(seed))
        if len(str(mapping)) < MAX_CHARS:
            mappings.append(mapping)
    return mappings


def render_file(text):
    render(check_workflow(text, fetch_module=fetch_module).workflow)


def render_mapping(mapping):
    render(from_graphql(mapping, fetch_module=fetch_module))


@pytest.mark.parametrize(
    ("render_mutant", "make_mutant"),
    [(render_file, mutant_file), (render_mapping, mutant)],
    ids=["files", "wire"],
)
def test_a_mutant_is_rendered_or_refused_in_time_and_without_side_effects(
    valid_mappings, render_mutant, make_mutant
):
    accepted_count = 0
    for seed in range(MUTANT_COUNT):
        random = Random(seed)
        workflow = make_mutant(random, random.choice(valid_mappings))
        started_s = time.process_time()
        with record_effects() as effects:
            problems = problems_of(render_mutant, workflow)

        assert effects == [], seed
        assert time.process_time() - started_s < MAX_CPU_S, seed
        if not problems:
            accepted_count += 1
        _assert_useful(problems, workflow, seed)
    # The test would prove little if nearly all mutants were invalid, or if most were valid.
    assert 0.02 < accepted_count / MUTANT_COUNT < 0.6


def _assert_useful(problems, workflow, seed):
    """Check that each message is printable and has a reason. In a file, the line must exist."""
    assert len(problems) <= MAX_PROBLEMS + 1, seed
    assert sum(len(str(problem)) for problem in problems) < MAX_MESSAGE_CHARS, seed
    for problem in problems:
        assert problem.reason, seed
        assert f"{problem} {problem.hint}".isprintable(), (seed, problem)
        assert "Traceback" not in problem.reason, seed
        assert "Input should" not in problem.reason, (seed, problem)  # a message of pydantic
        if problem.reason == "is not a known field":
            assert problem.hint, (seed, problem)
        if isinstance(workflow, str) and problem.line is not None:
            assert 1 <= problem.line <= len(workflow.splitlines()) + 1, (seed, problem)


def test_side_effects_are_detected(tmp_path):
    """``record_effects``, which the test above uses, must notice changed files."""
    with record_effects() as effects:
        (tmp_path / "owned").write_text("x")
        (tmp_path / "owned").unlink()

    assert [effect.split()[0] for effect in effects] == ["open", "os.remove"]
