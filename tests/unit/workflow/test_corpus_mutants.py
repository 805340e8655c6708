# SPDX-License-Identifier: Apache-2.0
"""Mutants of the corpus. tests/bench/workflow_mutants.py checks ten thousand of them."""

from __future__ import annotations

import pytest
from tests.unit.workflow import corpus_mutants
from tests.unit.workflow.corpus_mutants import Faults, check_mutant
from tests.unit.workflow.random_workflows import DIVISOR

MUTANT_COUNT = 1000 // DIVISOR
RUN_EVERY = 10


def test_mutants_do_not_crash_execute_hostile_texts_or_take_long(tmp_path):
    faults = Faults()
    for seed in range(MUTANT_COUNT):
        folder = tmp_path / str(seed)
        folder.mkdir()
        check_mutant(seed, folder, faults, run=seed % RUN_EVERY == 0)

    assert faults.messages == []
    # The test would prove little if nearly all mutants were invalid.
    assert faults.accepted > MUTANT_COUNT / 10


@pytest.fixture
def message_about(tmp_path, monkeypatch):
    """Return a function that returns the message about a mutant with this step."""

    def message(step):
        resources = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1}
        mapping = {"resources": resources, "steps": [step]}
        monkeypatch.setattr(corpus_mutants, "_mutant_of", lambda _random, _file: mapping)
        faults = Faults()
        check_mutant(0, tmp_path, faults, run=True)
        (fault,) = faults.messages
        return fault

    return message


def test_an_executed_hostile_text_is_detected(message_about, monkeypatch, tmp_path):
    # A condition is executed, so mutants with a hostile condition do not run otherwise.
    monkeypatch.setattr(corpus_mutants, "_conditions", lambda _steps: ())

    message = message_about({"if": f"-n $(touch {tmp_path}/owned)", "run": {"command": "true"}})

    assert message.endswith("a hostile text was executed")


def test_a_crash_is_detected(message_about, monkeypatch):
    monkeypatch.setattr(corpus_mutants, "render", lambda _workflow: 1 // 0)

    assert "ZeroDivisionError" in message_about({})


def test_a_side_effect_is_detected(message_about, monkeypatch, tmp_path):
    file = tmp_path / "written"
    monkeypatch.setattr(corpus_mutants, "render", lambda _workflow: str(file.write_text("x")))

    assert "has the side effect open" in message_about({"if": f"-e {tmp_path}/owned"})
