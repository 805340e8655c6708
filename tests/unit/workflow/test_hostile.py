# SPDX-License-Identifier: Apache-2.0
"""Workflows that mean no good, as files and as the wire has them: each is taken, or told what is
wrong, and no more.

The other half of the ten thousand are requests: tests/adapters/rpc/test_hostile_graphql.py and
test_hostile_grpc.py.
"""

from __future__ import annotations

import time
from random import Random

import pytest
from tests.fakes.effects import watched
from tests.unit.workflow.all_fields import STORED, WEB
from tests.unit.workflow.at_random import SHARE, random_mapping, text_of
from tests.unit.workflow.mutants import mutant, mutant_file
from tests.unit.workflow.strategies import refusal

from gridstead.workflow.parse import check_workflow, from_graphql
from gridstead.workflow.reading import MAX_PROBLEMS
from gridstead.workflow.render import render

NUMBER = 2500 // SHARE
SOUND = 400
MAX_CHARS = 3000  # of a sound workflow; larger ones only take longer
PATIENCE_S = 2  # of CPU; most take a thousandth
MAX_SAID = 100_000


@pytest.fixture(scope="module")
def sound():
    some = (random_mapping(Random(seed)) for seed in range(SOUND))
    return [WEB, STORED, *(mapping for mapping in some if len(str(mapping)) < MAX_CHARS)]


def from_file(text):
    render(check_workflow(text, modules=text_of).workflow)


def from_wire(mapping):
    render(from_graphql(mapping, modules=text_of))


@pytest.mark.parametrize(
    ("act", "made"), [(from_file, mutant_file), (from_wire, mutant)], ids=["files", "wire"]
)
def test_each_is_a_script_or_told_why_not_at_once_and_nothing_else_happens(sound, act, made):
    taken = 0
    for seed in range(NUMBER):
        random = Random(seed)
        hostile = made(random, random.choice(sound))
        started = time.process_time()
        with watched() as effects:
            problems = refusal(act, hostile)

        assert effects == [], seed
        assert time.process_time() - started < PATIENCE_S, seed
        taken += not problems
        _assert_useful(problems, hostile, seed)
    assert 0.02 < taken / NUMBER < 0.6


def _assert_useful(problems, hostile, seed):
    """Each says where and what, in characters that do nothing to a terminal; of a file, on which
    line.
    """
    assert len(problems) <= MAX_PROBLEMS + 1, seed
    assert sum(len(str(problem)) for problem in problems) < MAX_SAID, seed
    for problem in problems:
        assert problem.reason, seed
        assert f"{problem} {problem.hint}".isprintable(), (seed, problem)
        assert "Traceback" not in problem.reason, seed
        assert "Input should" not in problem.reason, (seed, problem)  # pydantic's own words
        if problem.reason == "is not a known field":
            assert problem.hint, (seed, problem)
        if isinstance(hostile, str) and problem.line is not None:
            assert 1 <= problem.line <= len(hostile.splitlines()) + 1, (seed, problem)


def test_watch_sees_what_is_done(tmp_path):
    """What the other test would see if anything were done."""
    with watched() as effects:
        (tmp_path / "owned").write_text("x")
        (tmp_path / "owned").unlink()

    assert [effect.split()[0] for effect in effects] == ["open", "os.remove"]
