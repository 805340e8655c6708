# SPDX-License-Identifier: Apache-2.0
"""Thousands of random workflows: fields, conversion to YAML and back, and rendered scripts.

shellcheck takes half a second per script, so all scripts are checked with shellcheck only in
``make hostile``.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from tests.unit.workflow.fields import fields, mappings_in
from tests.unit.workflow.random_workflows import (
    DIVISOR,
    HUGE,
    fetch_module,
    module_text,
    random_mapping,
    random_module,
    random_step,
)
from tests.unit.workflow.shell_checks import bash_errors, shellcheck
from tests.unit.workflow.yaml_file import to_yaml

from gridstead.workflow.field_paths import name_of
from gridstead.workflow.modules import check_module
from gridstead.workflow.parse import from_graphql, parse_workflow
from gridstead.workflow.render import render, secrets_of
from gridstead.workflow.schema import Module

CHECKOUT = Path(__file__).parents[3]
COUNT = 2000 // DIVISOR  # the number of workflows, and also the number of modules
STEPS_PER_SCRIPT = 100
SHELLCHECK_COUNT = COUNT if os.environ.get("GRIDSTEAD_HOSTILE") else COUNT // 100


@pytest.fixture(scope="module")
def mappings():
    return [random_mapping(Random(seed)) for seed in range(COUNT)]


@pytest.fixture(scope="module")
def modules():
    return [random_module(Random(seed)) for seed in range(COUNT)]


def test_every_field_of_the_language_is_generated(mappings, modules):
    """If this test fails after a field was added to the schema, extend random_workflows.py."""
    generated_fields = set()
    for mapping in mappings[:200]:
        generated_fields |= field_keys(mappings_in(mapping))
    for module in modules[:50]:
        generated_fields |= field_keys(mappings_in(module, Module))

    assert set(fields()) - generated_fields == set()


def field_keys(inner_mappings):
    """Return the pairs (name of the model, name of the field) of all fields in the mappings."""
    keys = set()
    for _, model, mapping in inner_mappings:
        keys.update((name_of(model), name) for name in mapping)
    return keys


def test_a_workflow_is_unchanged_after_it_is_written_and_parsed(mappings):
    for mapping in mappings:
        workflow = from_graphql(mapping)

        assert from_graphql(workflow.to_graphql()) == workflow
        assert parse_workflow(to_yaml(workflow.to_graphql())) == workflow


def test_a_module_is_unchanged_after_it_is_written_and_parsed(modules):
    for mapping in modules:
        module = check_module(mapping)

        assert check_module(module.model_dump(by_alias=True, exclude_none=True)) == module


def test_scripts_have_no_errors(mappings, modules, tmp_path):
    """All scripts are checked with bash. Some scripts are also checked with shellcheck."""
    scripts = [tmp_path / f"{seed}.sh" for seed in range(COUNT)]
    for seed, script in enumerate(scripts):
        text = module_text(modules[seed])
        workflow = from_graphql(mappings[seed], fetch_module=lambda _, text=text: text)
        # Half of the workflows that have no secrets are rendered with secrets_beside=False.
        with_secrets = bool(secrets_of(workflow)) or seed % 2 == 0
        script.write_text(render(workflow, secrets_beside=with_secrets))

    assert not bash_errors(scripts)
    assert shellcheck(*scripts[:: COUNT // SHELLCHECK_COUNT]) == ""


def test_scripts_with_many_steps_have_no_errors(tmp_path):
    """A few long scripts are checked faster than many short scripts.

    Each script contains the helper functions, which shellcheck reads again for each script.
    """
    resources = {"tasks": HUGE, "cpusPerTask": 4, "memPerCpu": 64}
    scripts = []
    for first_seed in range(0, COUNT, STEPS_PER_SCRIPT):
        seeds = range(first_seed, first_seed + STEPS_PER_SCRIPT)
        steps = [random_step(Random(seed)) for seed in seeds]
        workflow = from_graphql({"resources": resources, "steps": steps}, fetch_module=fetch_module)
        script = tmp_path / f"{first_seed}.sh"
        script.write_text(render(workflow))
        scripts.append(script)

    assert shellcheck(*scripts) == ""


@pytest.mark.parametrize("file", ["tools/background-checks", "Makefile"])
def test_make_test_and_make_hostile_use_all_examples(file):
    assert "GRIDSTEAD_ALL_TESTS=1" in (CHECKOUT / file).read_text()
