# SPDX-License-Identifier: Apache-2.0
"""Truncated, foreign and changed outputs give an error that names the program, or valid labels."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.benchmarks.recorded_outputs import CASES

from gridstead.domain.benchmarks.outputs.reading import UnusableOutput
from gridstead.domain.labels.keys import STANDARD_KEYS, provider_labels

NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
NAMES = st.sampled_from(sorted(CASES))


@pytest.mark.parametrize("name", CASES)
def test_complete_output_gives_labels_with_standard_keys(name):
    labels = CASES[name].labels(CASES[name].text)

    assert labels
    assert all(label.key in STANDARD_KEYS for label in labels)
    assert provider_labels({label.key: label.value for label in labels}) == tuple(
        sorted(labels, key=lambda label: label.key)
    )


@given(name=NAMES, data=st.data())
def test_truncated_output_is_refused(name, data):
    case = CASES[name]
    length = data.draw(st.integers(0, len(case.needed) - 1))

    with pytest.raises(UnusableOutput):
        case.labels(case.text[:length])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("other", CASES)
def test_output_of_another_program_is_refused(name, other):
    if CASES[name].labels is CASES[other].labels:
        return
    with pytest.raises(UnusableOutput):
        CASES[name].labels(CASES[other].text)


@given(name=NAMES, text=st.text())
def test_foreign_text_is_refused(name, text):
    with pytest.raises(UnusableOutput):
        CASES[name].labels(text)


@given(name=NAMES, data=st.data())
def test_changed_output_is_refused_or_gives_valid_labels(name, data):
    case = CASES[name]
    start = data.draw(st.integers(0, len(case.text) - 1))
    end = data.draw(st.integers(start, min(start + 20, len(case.text))))
    # Characters of numbers, JSON and tables find more than random text.
    inserted = data.draw(st.text('0123456789.-+eE"{}[],:=# \nnaINF\x00é', max_size=12))
    changed = case.text[:start] + inserted + case.text[end:]
    try:
        labels = case.labels(changed)
    except UnusableOutput:
        return
    provider_labels({label.key: label.value for label in labels})


@pytest.mark.parametrize("number", ["1e-9", "1e-10", "1e13", "1e14", "0", "-1", "1" * 18])
@given(name=NAMES, data=st.data())
def test_extreme_number_is_refused_or_gives_valid_labels(number, name, data):
    text = CASES[name].text
    match = data.draw(st.sampled_from(list(NUMBER.finditer(text)) or [None]))
    if match is None:
        return
    try:
        labels = CASES[name].labels(text[: match.start()] + number + text[match.end() :])
    except UnusableOutput:
        return
    provider_labels({label.key: label.value for label in labels})


@given(name=NAMES, data=st.data())
def test_output_without_some_lines_is_refused_or_gives_valid_labels(name, data):
    case = CASES[name]
    lines = case.text.splitlines(keepends=True)
    start = data.draw(st.integers(0, len(lines)))
    end = data.draw(st.integers(start, len(lines)))
    try:
        labels = case.labels("".join(lines[:start] + lines[end:]))
    except UnusableOutput:
        return
    provider_labels({label.key: label.value for label in labels})
