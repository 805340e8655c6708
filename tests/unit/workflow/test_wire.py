# SPDX-License-Identifier: Apache-2.0
"""The GraphQL types of ``submit`` and ``validate`` agree with the models.

GraphQL rejects a workflow that does not match these types, and reports only its own errors. So a
difference from the models would reject valid workflows, and hide broken rules that the workflow
checks report.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from graphql import GraphQLInputObjectType, GraphQLNonNull, build_schema, coerce_input_value
from tests.unit.workflow.fields import models
from tests.unit.workflow.random_workflows import random_mapping
from tests.yaml_files import read_yaml

from gridstead.workflow.field_paths import fields_of
from gridstead.workflow.parse import from_graphql
from gridstead.workflow.schema import Workflow

SCHEMA = build_schema(Path("control/gridstead/rpc/definitions/job_definitions.graphql").read_text())
JOB = GraphQLNonNull(SCHEMA.type_map["Job"])


MODELS = models()


def type_name(model):
    """Return the name of a model's GraphQL type."""
    return "Job" if model is Workflow else model.__name__


@pytest.mark.parametrize("model", MODELS)
def test_a_type_has_the_fields_of_its_model(model):
    graphql_type = SCHEMA.type_map[type_name(model)]

    assert isinstance(graphql_type, GraphQLInputObjectType)
    assert set(graphql_type.fields) == set(fields_of(model))


def test_every_input_type_is_a_model():
    input_types = set()
    for name, graphql_type in SCHEMA.type_map.items():
        if isinstance(graphql_type, GraphQLInputObjectType):
            input_types.add(name)

    assert input_types == set(map(type_name, MODELS))


@pytest.mark.parametrize(
    "path", sorted(Path("examples").glob("*.yaml")), ids=lambda path: path.stem
)
def test_graphql_does_not_change_an_example(path):
    mapping = read_yaml(path)

    assert from_graphql(coerce_input_value(mapping, JOB)) == from_graphql(mapping)


@pytest.mark.parametrize("seed", range(100))
def test_graphql_does_not_change_a_random_workflow(seed):
    mapping = random_mapping(Random(seed))

    assert from_graphql(coerce_input_value(mapping, JOB)) == from_graphql(mapping)
