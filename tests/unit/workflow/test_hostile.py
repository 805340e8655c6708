# SPDX-License-Identifier: Apache-2.0
"""Random faulty workflows, as files and in the wire format. Each is accepted or refused with useful
messages.

The rest of the ten thousand are requests: tests/adapters/rpc/test_hostile_graphql.py and
test_hostile_grpc.py.
"""

from __future__ import annotations

import time
from random import Random

import pytest
from tests.fakes.effects import record_effects
from tests.unit.workflow.all_fields import STORED, WEB
from tests.unit.workflow.at_random import SHARE, random_mapping, text_of
from tests.unit.workflow.mutants import mutant, mutant_file
from tests.unit.workflow.strategies import refusal

from gridstead.workflow.parse import check_workflow, from_graphql
from gridstead.workflow.reading import MAX_PROBLEMS
from gridstead.workflow.render import render

NUMBER = 2500 // SHARE
VALID = 400
MAX_CHARS = 3000  # of a valid workflow; larger ones only take longer
MAX_CPU_S = 2  # most take a thousandth of it
MAX_MESSAGE_CHARS = 100_000


@pytest.fixture(scope="module")
def valid_mappings():
    mappings = (random_mapping(Random(seed)) for seed in range(VALID))
    return [WEB, STORED, *(mapping for mapping in mappings if len(str(mapping)) < MAX_CHARS)]


def from_file(text):
    render(check_workflow(text, modules=text_of).workflow)


def from_wire(mapping):
    render(from_graphql(mapping, modules=text_of))


@pytest.mark.parametrize(
    ("act", "make"), [(from_file, mutant_file), (from_wire, mutant)], ids=["files", "wire"]
)
def test_each_is_rendered_or_refused_quickly_without_side_effects(valid_mappings, act, make):
    accepted = 0
    for seed in range(NUMBER):
        random = Random(seed)
        hostile = make(random, random.choice(valid_mappings))
        started = time.process_time()
        with record_effects() as effects:
            problems = refusal(act, hostile)

        assert effects == [], seed
        assert time.process_time() - started < MAX_CPU_S, seed
        accepted += not problems
        _assert_useful(problems, hostile, seed)
    assert 0.02 < accepted / NUMBER < 0.6


def _assert_useful(problems, hostile, seed):
    """Check that each message has a place and a reason, is printable, and has a line for a file."""
    assert len(problems) <= MAX_PROBLEMS + 1, seed
    assert sum(len(str(problem)) for problem in problems) < MAX_MESSAGE_CHARS, seed
    for problem in problems:
        assert problem.reason, seed
        assert f"{problem} {problem.hint}".isprintable(), (seed, problem)
        assert "Traceback" not in problem.reason, seed
        assert "Input should" not in problem.reason, (seed, problem)  # a message of pydantic
        if problem.reason == "is not a known field":
            assert problem.hint, (seed, problem)
        if isinstance(hostile, str) and problem.line is not None:
            assert 1 <= problem.line <= len(hostile.splitlines()) + 1, (seed, problem)


def test_the_watch_detects_side_effects(tmp_path):
    """The other test relies on it."""
    with record_effects() as effects:
        (tmp_path / "owned").write_text("x")
        (tmp_path / "owned").unlink()

    assert [effect.split()[0] for effect in effects] == ["open", "os.remove"]
