# SPDX-License-Identifier: Apache-2.0
"""Strategies for random workflows with hostile text in every text field."""

from __future__ import annotations

from functools import partial
from random import Random

from hypothesis import strategies as st
from tests.unit.workflow.at_random import HOSTILE, random_mapping, text_of

from gridstead.errors import InvalidWorkflow
from gridstead.workflow.parse import from_graphql

texts = st.one_of(
    st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=5)), max_size=4).map("".join),
    st.text(max_size=40),
).filter(lambda text: "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text))

names = texts.map(lambda text: "".join(char for char in text if char.isprintable())[:100])
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
nested_workflows = nested_mappings.map(partial(from_graphql, modules=text_of))

anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.sampled_from(
                    [
                        "resources",
                        "tasks",
                        "steps",
                        "run",
                        "command",
                        "env",
                        "key",
                        "value",
                        "name",
                        "job",
                    ]
                ),
                st.text(max_size=5),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)


def refusal(act, *arguments):
    """Return the problems of an InvalidWorkflow that a call raises. Empty if the call succeeds."""
    try:
        act(*arguments)
    except InvalidWorkflow as err:
        return err.problems
    return ()
