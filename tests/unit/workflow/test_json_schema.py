# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema agrees with the parser."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random

import pytest
from jsonschema import Draft202012Validator
from tests.unit.workflow.fields import paths_in, value_at, with_value_at
from tests.unit.workflow.random_workflows import random_mapping
from tests.unit.workflow.strategies import problems_of
from tests.yaml_files import read_yaml

from gridstead.workflow.json_schema import json_schema
from gridstead.workflow.parse import from_graphql

VALIDATOR = Draft202012Validator(json_schema())
EXAMPLES = {path.stem: read_yaml(path) for path in sorted(Path("examples").glob("*.yaml"))}
INVALID_VALUES = (-5, "a b", [3], {"x": 1}, True, 1.5, "/bin/zsh")


def mutants(value):
    """Yield copies with one fault each."""
    for path in paths_in(value):
        target = value_at(value, path)
        if isinstance(target, dict):
            yield with_value_at(value, path, target | {"unknown": 1})
            for key in target:
                without_key = dict(target)
                del without_key[key]
                yield with_value_at(value, path, without_key)
        if path:
            for invalid_value in INVALID_VALUES:
                yield with_value_at(value, path, invalid_value)


def concerns_several_fields(problems):
    """Return whether only the parser can find the problems: the schema checks single fields."""
    text = " ".join(map(str, problems))
    return "but the job has" in text or "handle" in text


def test_the_schema_is_valid():
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_valid_at_the_top_level_and_under_job(name):
    assert VALIDATOR.is_valid(EXAMPLES[name])
    assert VALIDATOR.is_valid({"job": EXAMPLES[name]})
    assert not VALIDATOR.is_valid({"job": EXAMPLES[name], "more": 1})
    assert not VALIDATOR.is_valid({"job": 5})


def test_keys_with_x_are_valid():
    mapping = copy.deepcopy(EXAMPLES["hello-world"]) | {"x-env": 1}
    mapping["steps"][0]["x-note"] = 1

    assert VALIDATOR.is_valid(mapping)
    assert VALIDATOR.is_valid({"job": mapping, "x-env": 1})


@pytest.mark.parametrize("name", EXAMPLES)
def test_mutants_are_refused_by_both_schema_and_parser(name):
    refused_count = 0
    for mutant in mutants(EXAMPLES[name]):
        problems = problems_of(from_graphql, mutant)
        if VALIDATOR.is_valid(mutant):
            assert not problems or concerns_several_fields(problems), (mutant, problems)
        else:
            assert problems, mutant
            refused_count += 1
    # Every example must have enough mutants that the schema refuses.
    assert refused_count > 50


@pytest.mark.parametrize("seed", range(150))
def test_random_workflows_are_valid(seed):
    mapping = random_mapping(Random(seed))

    assert VALIDATOR.is_valid(mapping)
    assert VALIDATOR.is_valid(from_graphql(mapping).to_graphql())
