# SPDX-License-Identifier: Apache-2.0
"""How workflow documents in YAML are read: types, line numbers and limits."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.workflow.strategies import problems_of

from gridstead.errors import InvalidWorkflow
from gridstead.workflow.document import MAX_BYTES, MAX_DEPTH, format_path, load

FRAGMENTS = [
    "a: ", "- ", "\n", "  ", "{", "}", "[", "]", "&a ", "*a", "!!python/object ", "? ", ": ", "|",
    ">", "---\n", "...\n", "'", '"', "#", "%YAML 1.1\n", "\t", "\x00", "\ud800", "\x85", "<<: ",
    "~", "yes", "0x1f", "1e999", "@",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "workflow: is empty"),
        ("# nothing\n", "workflow: is empty"),
        ("a: [", "line 2: workflow: is not valid YAML"),
        ("a: 1\nb: 'x", "line 2: workflow: is not valid YAML"),
        ("a: 1\n\tb: 2\n", "line 2: workflow: is not valid YAML"),
        ("a: b: c", "line 1: workflow: is not valid YAML"),
        ("a: 1\nb: \x00", "line 2: workflow: is not valid YAML: it contains a character"),
        ("a: 1\nb: '\ud800'", "line 2: workflow: is not valid YAML: it contains a character"),
        ("a: &x 1\nb: *x\n", "line 2: b: is an alias; anchors and aliases are not allowed"),
        ("a: 1\n---\nb: 1\n", "line 2: workflow: contains more than one document"),
        ("a: !!python/object:os.system x", "line 1: a: has the tag"),
        ("!!python/object:os.system {}", "line 1: workflow: has the tag"),
        ("? [1]\n: 2", "line 1: workflow: has a key that is not text"),
        ("x" * (MAX_BYTES + 1), "workflow: is larger than 256 KiB"),
        ("é" * (MAX_BYTES // 2 + 1), "workflow: is larger than 256 KiB"),
        ("[" * (MAX_DEPTH + 2), "is nested deeper than 32 levels"),
        ("[" * 100_000, "is nested deeper than 32 levels"),
        ("- " * 100_000, "is nested deeper than 32 levels"),
    ],
)
def test_an_invalid_document_is_refused_with_the_place_of_the_mistake(text, expected):
    with pytest.raises(InvalidWorkflow) as caught:
        load(text)

    assert expected in str(caught.value)
    assert len(caught.value.problems) == 1
    assert len(str(caught.value)) < 400


def test_a_duplicate_key_is_a_problem_and_the_first_value_is_used():
    document = load("a: 1\nb: 2\na: 3\n")

    assert document.value == {"a": 1, "b": 2}
    assert [str(problem) for problem in document.problems] == ["line 3: a: is a duplicate key"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("on", "on"), ("n", "n"), ("2024-01-01", "2024-01-01"), ("12:30", "12:30"),
        ("0x1f", "0x1f"), ("1_000", "1_000"), ("<<", "<<"), ("=", "="), ("'5'", "5"),
        ('"true"', "true"), ("010", 10), ("-3", -3), ("1.5", 1.5), ("true", True),
        ("False", False), ("~", None), ("null", None), ("", None), ("!  x", "x"),
    ],
)  # fmt: skip
def test_plain_scalars_have_the_types_of_yaml_1_2(text, value):
    assert load(f"a: {text}").value == {"a": value}


def test_the_line_of_a_value_is_found_by_its_path():
    document = load(
        "steps:\n  - name: a\n    run:\n      command: |\n        x\n        y\n  - name: b\n"
    )

    assert document.line(("steps", 0, "run", "command")) == 4
    assert document.line(("steps", 1, "name")) == 7
    assert document.line(("steps", 1, "nothing", "here")) == 7
    assert document.line(("nothing",)) == 1


def test_a_path_is_formatted_with_dots_and_brackets():
    assert format_path(("steps", 0, "run", "command")) == "steps[0].run.command"
    assert format_path(("x" * 100, "\x1b[2J\n")) == "x" * 40 + "….�[2J�"


def test_a_document_of_the_maximum_size_is_parsed_in_seconds():
    # Each item has 22 characters.
    text = "a:\n" + "- {b: [1, 'x', true]}\n" * (MAX_BYTES // 22 - 1)
    started_s = time.monotonic()

    assert len(load(text).value["a"]) > 10_000
    assert time.monotonic() - started_s < 20


@settings(max_examples=300)
@given(
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=4)), max_size=20).map("".join)
)
def test_any_text_is_parsed_or_refused(text):
    problems_of(load, text)
