# SPDX-License-Identifier: Apache-2.0
"""The text of a diagnostic, and the order and exit code of several."""

import pytest

from gridstead.domain.diagnostic import Diagnostic, Severity, exit_code, most_serious_first


def diagnostic(severity=Severity.WIRING, **fields):
    return Diagnostic(where=("a",), what="must be 1", severity=severity, **fields)


@pytest.mark.parametrize(("seen", "text"), [("", "must be 1"), ("2", "must be 1, found 2")])
def test_text_has_what_was_seen(seen, text):
    assert diagnostic(seen=seen).text == text


def test_diagnostics_are_sorted_by_severity():
    order = most_serious_first(map(diagnostic, reversed(Severity)))

    assert [sorted_one.severity for sorted_one in order] == list(Severity)


@pytest.mark.parametrize("severity", Severity)
def test_exit_code_is_that_of_the_most_serious_diagnostic(severity):
    assert exit_code([diagnostic(Severity.NOTE), diagnostic(severity)]) == severity.value


def test_exit_code_of_no_diagnostics_is_zero():
    assert exit_code([]) == 0
