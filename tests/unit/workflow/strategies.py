# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for workflows, with hostile text in every text field."""

from __future__ import annotations

from functools import partial
from random import Random

from hypothesis import strategies as st
from tests.unit.workflow.random_workflows import HOSTILE, fetch_module, random_mapping

from gridstead.errors import InvalidWorkflow
from gridstead.workflow.parse import from_graphql


def _is_valid_text(text):
    has_surrogate = any("\ud800" <= char <= "\udfff" for char in text)
    return "\0" not in text and not has_surrogate


def _to_name(text):
    return "".join(filter(str.isprintable, text))[:100]


_pieces = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=5))
texts = st.one_of(
    st.lists(_pieces, max_size=4).map("".join),
    st.text(max_size=40),
).filter(_is_valid_text)

names = texts.map(_to_name)
keys = st.sampled_from(
    [
        "A",
        "b_1",
        "line",
        "storage",
        "status",
        "writer",
        "IFS",
        "HOME",
        "STORAGE_PATH",
        "n",
        "TMPDIR",
    ]
)
env = st.lists(
    st.fixed_dictionaries({"key": keys, "value": texts}),
    max_size=4,
    unique_by=lambda pair: pair["key"],
)
steps = st.fixed_dictionaries(
    {
        "run": st.fixed_dictionaries(
            {"command": texts.filter(bool)},
            optional={"env": env, "shell": st.sampled_from(["/bin/sh", "/bin/bash"])},
        )
    },
    optional={"name": names},
)
mappings = st.fixed_dictionaries(
    {
        "resources": st.fixed_dictionaries(
            {"tasks": st.just(2), "cpusPerTask": st.integers(1, 4), "memPerCpu": st.integers(1, 64)}
        ),
        "steps": st.lists(steps, min_size=1, max_size=3),
    },
    optional={"env": env, "enableLogging": st.booleans()},
)
workflows = mappings.map(from_graphql)

nested_mappings = st.integers(0, 2**32).map(lambda seed: random_mapping(Random(seed)))
nested_workflows = nested_mappings.map(partial(from_graphql, fetch_module=fetch_module))

_field_names = st.sampled_from(
    ["resources", "tasks", "steps", "run", "command", "env", "key", "value", "name", "job"]
)
_scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))


def _collections(items):
    names = st.one_of(_field_names, st.text(max_size=5))
    return st.one_of(st.lists(items, max_size=3), st.dictionaries(names, items, max_size=4))


yaml_values = st.recursive(_scalars, _collections, max_leaves=20)


def problems_of(function, *arguments):
    """Call a function. Return the problems of the InvalidWorkflow that the function raises."""
    try:
        function(*arguments)
    except InvalidWorkflow as err:
        return err.problems
    return ()
