# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema agrees with the parser."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random

import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.unit.workflow.at_random import random_mapping
from tests.unit.workflow.fields import value_at
from tests.unit.workflow.strategies import refusal

from gridstead.workflow.json_schema import json_schema
from gridstead.workflow.parse import from_graphql

VALIDATOR = Draft202012Validator(json_schema())
EXAMPLES = {
    path.stem: yaml.safe_load(path.read_text()) for path in sorted(Path("examples").glob("*.yaml"))
}


def places(value, path=()):
    """Yield the path of every value, outermost first."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


def mutants(value):
    """Yield copies with one fault each."""
    for path in places(value):
        target = value_at(value, path)
        if isinstance(target, dict):
            yield changed(value, path, target | {"unknown": 1})
            for key in target:
                without_key = {name: item for name, item in target.items() if name != key}
                yield changed(value, path, without_key)
        if path:
            for wrong in (-5, "a b", [3], {"x": 1}, True, 1.5, "/bin/zsh"):
                yield changed(value, path, wrong)


def changed(value, path, new):
    result = copy.deepcopy(value)
    if not path:
        return new
    value_at(result, path[:-1])[path[-1]] = new
    return result


def test_the_schema_is_valid():
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_valid_at_the_top_level_and_under_job(name):
    assert VALIDATOR.is_valid(EXAMPLES[name])
    assert VALIDATOR.is_valid({"job": EXAMPLES[name]})
    assert not VALIDATOR.is_valid({"job": EXAMPLES[name], "more": 1})
    assert not VALIDATOR.is_valid({"job": 5})


@pytest.mark.parametrize("name", EXAMPLES)
def test_mutants_are_refused_as_by_the_parser(name):
    """Only the parser knows rules of several fields, such as the total resources of steps."""
    refused = 0
    for mutant in mutants(EXAMPLES[name]):
        is_valid = VALIDATOR.is_valid(mutant)
        problems = refusal(from_graphql, mutant)
        concerns_several_fields = any(
            "but the job has" in str(problem) or "handle" in str(problem) for problem in problems
        )
        assert is_valid == (not problems) or (is_valid and concerns_several_fields), (
            mutant,
            problems,
        )
        refused += not is_valid
    assert refused > 50


@pytest.mark.parametrize("seed", range(150))
def test_random_workflows_are_valid(seed):
    mapping = random_mapping(Random(seed))

    assert VALIDATOR.is_valid(mapping)
    assert VALIDATOR.is_valid(from_graphql(mapping).to_graphql())
