# SPDX-License-Identifier: Apache-2.0
"""The forge tests pass, the sources are formatted, and the linter of forge reports nothing."""


def test_forge_tests_pass(forge):
    result = forge("test")

    assert result.returncode == 0, result.stdout


def test_sources_are_formatted(forge):
    result = forge("fmt", "--check")

    assert result.returncode == 0, result.stdout


def test_linter_reports_nothing(forge):
    result = forge("lint", "src", "devnet")

    assert (result.returncode, result.stderr) == (0, "")
