# SPDX-License-Identifier: Apache-2.0
"""The forge tests pass, and the sources are formatted and lint-free."""


def test_forge_tests_pass(forge):
    done = forge("test")

    assert done.returncode == 0, done.stdout


def test_sources_are_formatted(forge):
    done = forge("fmt", "--check")

    assert done.returncode == 0, done.stdout


def test_linter_reports_nothing(forge):
    done = forge("lint", "src")

    assert (done.returncode, done.stderr) == (0, "")
