# SPDX-License-Identifier: Apache-2.0
"""The GraphQL types of ``submit`` and ``validate`` agree with the models.

So GraphQL rejects no workflow before our checks report it.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import yaml
from graphql import GraphQLInputObjectType, GraphQLNonNull, build_schema, coerce_input_value
from tests.unit.workflow.at_random import random_mapping

from gridstead.workflow.field_paths import fields_of
from gridstead.workflow.parse import from_graphql
from gridstead.workflow.schema import Module, Workflow, model_in

SCHEMA = build_schema(Path("control/gridstead/rpc/definitions/job_definitions.graphql").read_text())
JOB = GraphQLNonNull(SCHEMA.type_map["Job"])


def models(model, seen):
    """Return a model and all models in it, each once."""
    if model not in seen:
        seen.append(model)
        for field in model.model_fields.values():
            inner = model_in(field.annotation)
            if inner:
                models(inner, seen)
    return seen


MODELS = models(Module, models(Workflow, []))


@pytest.mark.parametrize("model", MODELS)
def test_a_type_has_the_fields_of_its_model(model):
    kind = SCHEMA.type_map["Job" if model is Workflow else model.__name__]

    assert isinstance(kind, GraphQLInputObjectType)
    assert set(kind.fields) == set(fields_of(model))


def test_every_input_type_is_a_model():
    kinds = {
        name for name, kind in SCHEMA.type_map.items() if isinstance(kind, GraphQLInputObjectType)
    }

    assert kinds == {"Job" if model is Workflow else model.__name__ for model in MODELS}


@pytest.mark.parametrize(
    "path", sorted(Path("examples").glob("*.yaml")), ids=lambda path: path.stem
)
def test_an_example_passes_through_graphql(path):
    mapping = yaml.safe_load(path.read_text())

    assert from_graphql(coerce_input_value(mapping, JOB)) == from_graphql(mapping)


@pytest.mark.parametrize("seed", range(100))
def test_a_random_workflow_passes_through_graphql(seed):
    mapping = random_mapping(Random(seed))

    assert from_graphql(coerce_input_value(mapping, JOB)) == from_graphql(mapping)
