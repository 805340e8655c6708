# SPDX-License-Identifier: Apache-2.0
"""Tests of the text of a diagnostic, and of the order and exit code of several diagnostics."""

import pytest

from gridstead.domain.diagnostic import Diagnostic, Severity, exit_code, most_serious_first


def diagnostic(severity=Severity.WIRING, **fields):
    return Diagnostic(where=("a",), what="must be 1", severity=severity, **fields)


@pytest.mark.parametrize(("actual", "text"), [("", "must be 1"), ("2", "must be 1, found 2")])
def test_text_contains_the_found_value(actual, text):
    assert diagnostic(actual=actual).text == text


def test_diagnostics_are_sorted_by_severity():
    diagnostics = most_serious_first(map(diagnostic, reversed(Severity)))

    assert [diagnostic.severity for diagnostic in diagnostics] == list(Severity)


@pytest.mark.parametrize("severity", Severity)
def test_exit_code_is_that_of_the_most_serious_diagnostic(severity):
    assert exit_code([diagnostic(Severity.NOTE), diagnostic(severity)]) == severity.value


def test_exit_code_of_no_diagnostics_is_zero():
    assert exit_code([]) == 0
