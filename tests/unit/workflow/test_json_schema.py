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
from tests.unit.workflow.strategies import refusal

from gridstead.workflow.json_schema import json_schema
from gridstead.workflow.parse import from_graphql

VALIDATOR = Draft202012Validator(json_schema())
EXAMPLES = {
    path.stem: yaml.safe_load(path.read_text()) for path in sorted(Path("examples").glob("*.yaml"))
}


def places(value, path=()):
    """Every place of a value, from the outside in."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


def at(value, path):
    for part in path:
        value = value[part]
    return value


def mutants(value):
    """Copies with one fault each."""
    for path in places(value):
        here = at(value, path)
        if isinstance(here, dict):
            yield changed(value, path, here | {"unknown": 1})
            yield from (
                changed(value, path, {k: v for k, v in here.items() if k != key}) for key in here
            )
        if path:
            yield from (
                changed(value, path, wrong)
                for wrong in (-5, "a b", [3], {"x": 1}, True, 1.5, "/bin/zsh")
            )


def changed(value, path, new):
    result = copy.deepcopy(value)
    if not path:
        return new
    at(result, path[:-1])[path[-1]] = new
    return result


def test_schema_is_one():
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_fit_at_the_top_and_under_job(name):
    assert VALIDATOR.is_valid(EXAMPLES[name])
    assert VALIDATOR.is_valid({"job": EXAMPLES[name]})
    assert not VALIDATOR.is_valid({"job": EXAMPLES[name], "more": 1})
    assert not VALIDATOR.is_valid({"job": 5})


@pytest.mark.parametrize("name", EXAMPLES)
def test_mutants_are_refused_as_by_the_parser(name):
    """The parser alone knows rules of several fields, such as the sum of what steps take."""
    refused = 0
    for mutant in mutants(EXAMPLES[name]):
        fits = VALIDATOR.is_valid(mutant)
        problems = refusal(from_graphql, mutant)
        of_several = any(
            "more than the" in str(problem) or "handle" in str(problem) for problem in problems
        )
        assert fits == (not problems) or (fits and of_several), (mutant, problems)
        refused += not fits
    assert refused > 50


@pytest.mark.parametrize("seed", range(150))
def test_random_workflows_fit(seed):
    mapping = random_mapping(Random(seed))

    assert VALIDATOR.is_valid(mapping)
    assert VALIDATOR.is_valid(from_graphql(mapping).to_graphql())
