# SPDX-License-Identifier: Apache-2.0
"""Two thousand workflows at random, or two hundred: what they hold, what is read back, and what
shells say of their scripts.

``make hostile`` has shellcheck read each script in full, which takes it half a second.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from tests.unit.workflow.at_random import (
    MUCH,
    SHARE,
    module_text,
    random_mapping,
    random_module,
    random_step,
    text_of,
)
from tests.unit.workflow.fields import fields, mappings_in
from tests.unit.workflow.shell_checks import bash_complaints, shellcheck
from tests.unit.workflow.yaml_file import written

from gridstead.workflow.field_paths import name_of
from gridstead.workflow.modules import check_module
from gridstead.workflow.parse import from_graphql, parse_workflow
from gridstead.workflow.render import render, secrets_of
from gridstead.workflow.schema import Module

CHECKOUT = Path(__file__).parents[3]
NUMBER = 2000 // SHARE
IN_A_SCRIPT = 100
CHECKED = NUMBER if os.environ.get("GRIDSTEAD_HOSTILE") else NUMBER // 100


@pytest.fixture(scope="module")
def mappings():
    return [random_mapping(Random(seed)) for seed in range(NUMBER)]


@pytest.fixture(scope="module")
def modules():
    return [random_module(Random(seed)) for seed in range(NUMBER)]


def test_every_field_of_the_language_is_drawn(mappings, modules):
    """A field that is new in the schema fails this until at_random.py draws it."""
    drawn = {
        (name_of(model), name)
        for root, some in ((Module, modules[:50]), (None, mappings[:200]))
        for mapping in some
        for _, model, here in mappings_in(mapping, *([root] if root else []))
        for name in here
    }

    assert set(fields()) - drawn == set()


def test_what_is_written_is_read_back(mappings):
    for mapping in mappings:
        workflow = from_graphql(mapping)

        assert from_graphql(workflow.to_graphql()) == workflow
        assert parse_workflow(written(workflow.to_graphql())) == workflow


def test_module_that_is_written_is_read_back(modules):
    for module in modules:
        read = check_module(module)

        assert check_module(read.model_dump(by_alias=True, exclude_none=True)) == read


def test_scripts_have_no_complaint(mappings, modules, tmp_path):
    """Shells read all of them, and shellcheck some."""
    scripts = [tmp_path / f"{seed}.sh" for seed in range(NUMBER)]
    for seed, script in enumerate(scripts):
        text = module_text(modules[seed])
        workflow = from_graphql(mappings[seed], modules=lambda _, text=text: text)
        script.write_text(
            render(workflow, secrets_beside=seed % 2 == 0 or bool(secrets_of(workflow)))
        )

    assert not bash_complaints(scripts)
    assert shellcheck(*scripts[:: NUMBER // CHECKED]) == ""


def test_steps_have_no_complaint(tmp_path):
    """A hundred in a script, so that shellcheck reads what is the same in all scripts only once for
    each hundred.
    """
    resources = {"tasks": MUCH, "cpusPerTask": 4, "memPerCpu": 64}
    scripts = []
    for first in range(0, NUMBER, IN_A_SCRIPT):
        steps = [random_step(Random(seed)) for seed in range(first, first + IN_A_SCRIPT)]
        scripts.append(tmp_path / f"{first}.sh")
        scripts[-1].write_text(
            render(from_graphql({"resources": resources, "steps": steps}, modules=text_of))
        )

    assert shellcheck(*scripts) == ""


@pytest.mark.parametrize("file", ["tools/check", "Makefile"])
def test_make_check_and_make_hostile_draw_all_examples(file):
    assert "GRIDSTEAD_ALL_EXAMPLES=1" in (CHECKOUT / file).read_text()
