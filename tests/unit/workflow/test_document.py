# SPDX-License-Identifier: Apache-2.0
"""How workflow documents in YAML are read: types, line numbers and limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.workflow.strategies import problems_of

from gridstead.errors import InvalidWorkflow
from gridstead.workflow.document import MAX_BYTES, load
from gridstead.workflow.paths import MAX_DEPTH, format_path

FRAGMENTS = [
    "a: ", "- ", "\n", "  ", "{", "}", "[", "]", "&a ", "*a", "!!python/object ", "? ", ": ", "|",
    ">", "---\n", "...\n", "'", '"', "#", "%YAML 1.1\n", "\t", "\x00", "\ud800", "\x85", "<<: ",
    "~", "yes", "0x1f", "1e999", "@", "0_", "<<: *a\n", "<<: [*a, *a]\n",
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
        ("a: 1\nb: *x\n", "line 2: b: is the alias *x without an anchor before it"),
        ("a: &x\n  b: *x\n", "line 2: a.b: is the alias *x inside its own anchor"),
        ("a: &x [1]\n*x : 2\n", "line 2: workflow: has a key that is not text"),
        ("a:\n  <<: 5\n", "line 2: a.<<: must be a mapping or a list of mappings"),
        ("a:\n  <<: [{}, 5]\n", "line 2: a.<<: must be a mapping or a list of mappings"),
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
        ("<<", "<<"), ("=", "="), ("'5'", "5"), ('"true"', "true"), ("-3", -3), ("1.5", 1.5),
        ("true", True), ("False", False), ("~", None), ("null", None), ("", None), ("!  x", "x"),
        ("0x1f", 31), ("0o17", 15), ("0b101", 5), ("1_000", 1000), ("_1", "_1"), ("0x", "0x"),
        ("1" * 65, "1" * 65),
    ],
)  # fmt: skip
def test_a_plain_scalar_is_a_number_a_truth_value_null_or_text(text, value):
    assert load(f"a: {text}").value == {"a": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0400", 256), ("-010", -8), ("+017", 15), ("0_7", 7), ("00", 0), ("0", 0),
        ("08", 8), ("019", 19), ("010.5", 10.5), ("'0400'", "0400"),
    ],
)  # fmt: skip
def test_a_number_with_a_leading_zero_is_octal_unless_it_has_an_8_or_9(text, value):
    assert load(f"a: {text}").value == {"a": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &x [1, {b: c}]\nd: *x", {"a": [1, {"b": "c"}], "d": [1, {"b": "c"}]}),
        ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        ("&k a: 1\nb: *k", {"a": 1, "b": "a"}),
        ("a: &x b\n*x : 1", {"a": "b", "b": 1}),
        ("a: &x {b: 1, c: 2}\nd: {c: 3, <<: *x}", {"a": {"b": 1, "c": 2}, "d": {"c": 3, "b": 1}}),
        ("a: {<<: [{b: 1}, {b: 2, c: 3}]}", {"a": {"b": 1, "c": 3}}),
        ('a: {"<<": {b: 1}}', {"a": {"<<": {"b": 1}}}),
    ],
)
def test_anchors_aliases_and_merge_keys_are_expanded(text, value):
    assert load(text).value == value


def test_a_value_in_an_alias_has_the_line_of_the_anchor():
    document = load("a: &x\n  b: 1\nc: *x\nd:\n  e: 2\n  <<: *x\n")

    assert document.line(("c",)) == 3
    assert document.line(("c", "b")) == 2
    assert document.line(("d", "b")) == 2
    assert document.sources["d", "b"] == "1"


# Each file is small, but its aliases expand to a large value.
BOMBS = {
    "lists": "a0: &a0 [x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20)),
    "mappings": "a0: &a0 {x: x}\n"
    + "".join(f"a{n}: &a{n} {{b: *a{n - 1}, c: *a{n - 1}}}\n" for n in range(1, 25)),
    "merge keys": "a0: &a0 {x: x}\n"
    + "".join(f"a{n}: &a{n} {{<<: {{b: *a{n - 1}, c: *a{n - 1}}}}}\n" for n in range(1, 25)),
    "a long text": f"a: &a {'x' * 200_000}\nb: [{', '.join(['*a'] * 1000)}]\n",
    "long keys": f"a: &a {{{'x' * 1000}: 1}}\nb: [{', '.join(['*a'] * 1000)}]\n",
    "empty lists": f"a: &a [{'[],' * 1000}]\nb: [{', '.join(['*a'] * 1000)}]\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_aliases_that_expand_to_a_large_value_are_refused(name):
    # Expanded, the largest of them have at least 9**19 values.
    (problem,) = problems_of(load, BOMBS[name])

    assert problem.reason == "expands aliases to more than 256 KiB"
    assert problem.line > 1


def test_an_alias_cannot_nest_a_value_too_deep():
    text = "a: &a " + "[" * 20 + "]" * 20 + "\nb: " + "[" * 20 + "*a" + "]" * 20

    (problem,) = problems_of(load, text)

    assert problem.reason == "is nested deeper than 32 levels"


def test_a_second_document_is_ignored_with_a_warning_that_names_its_line():
    document = load("a: 1\n---\nb: 1\n---\n[\n")

    assert document.value == {"a": 1}
    expected = ["line 2: workflow: has a second document, which is ignored"]
    assert [str(warning) for warning in document.warnings] == expected
    assert load("---\na: 1\n...\n").warnings == ()


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


def test_a_document_of_the_maximum_size_is_parsed():
    # Each item has 22 characters.
    text = "a:\n" + "- {b: [1, 'x', true]}\n" * (MAX_BYTES // 22 - 1)

    assert len(load(text).value["a"]) > 10_000


@settings(max_examples=300)
@given(
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=4)), max_size=20).map("".join)
)
def test_any_text_is_parsed_or_refused(text):
    problems_of(load, text)
