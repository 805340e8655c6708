# SPDX-License-Identifier: Apache-2.0
"""Random workflows, two thousand or two hundred: fields, round trip, and checks of the scripts.

``make hostile`` checks each script with shellcheck, which takes half a second per script.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from tests.unit.workflow.at_random import (
    HUGE,
    SHARE,
    module_text,
    random_mapping,
    random_module,
    random_step,
    text_of,
)
from tests.unit.workflow.fields import fields, mappings_in
from tests.unit.workflow.shell_checks import bash_errors, shellcheck
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
    """A new field in the schema must be added to at_random.py."""
    drawn = set()
    for mapping in mappings[:200]:
        drawn |= field_names(mappings_in(mapping))
    for module in modules[:50]:
        drawn |= field_names(mappings_in(module, Module))

    assert set(fields()) - drawn == set()


def field_names(inner_mappings):
    names = set()
    for _, model, mapping in inner_mappings:
        names.update((name_of(model), name) for name in mapping)
    return names


def test_a_written_workflow_is_parsed_to_the_same_workflow(mappings):
    for mapping in mappings:
        workflow = from_graphql(mapping)

        assert from_graphql(workflow.to_graphql()) == workflow
        assert parse_workflow(written(workflow.to_graphql())) == workflow


def test_a_written_module_is_parsed_to_the_same_module(modules):
    for mapping in modules:
        module = check_module(mapping)

        assert check_module(module.model_dump(by_alias=True, exclude_none=True)) == module


def test_scripts_have_no_errors(mappings, modules, tmp_path):
    """bash checks all of them, and shellcheck some."""
    scripts = [tmp_path / f"{seed}.sh" for seed in range(NUMBER)]
    for seed, script in enumerate(scripts):
        text = module_text(modules[seed])
        workflow = from_graphql(mappings[seed], modules=lambda _, text=text: text)
        with_secrets = seed % 2 == 0 or bool(secrets_of(workflow))
        script.write_text(render(workflow, secrets_beside=with_secrets))

    assert not bash_errors(scripts)
    assert shellcheck(*scripts[:: NUMBER // CHECKED]) == ""


def test_steps_have_no_errors(tmp_path):
    """Each script has a hundred steps, so that shellcheck reads the common part less often."""
    resources = {"tasks": HUGE, "cpusPerTask": 4, "memPerCpu": 64}
    scripts = []
    for first in range(0, NUMBER, IN_A_SCRIPT):
        steps = [random_step(Random(seed)) for seed in range(first, first + IN_A_SCRIPT)]
        scripts.append(tmp_path / f"{first}.sh")
        scripts[-1].write_text(
            render(from_graphql({"resources": resources, "steps": steps}, modules=text_of))
        )

    assert shellcheck(*scripts) == ""


@pytest.mark.parametrize("file", ["tools/check", "Makefile"])
def test_make_check_and_make_hostile_use_all_examples(file):
    assert "GRIDSTEAD_ALL_EXAMPLES=1" in (CHECKOUT / file).read_text()
