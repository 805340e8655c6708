# SPDX-License-Identifier: Apache-2.0
"""The contracts' own tests pass."""


def test_forge_finds_no_failure(forge):
    done = forge("test")

    assert done.returncode == 0, done.stdout


def test_the_sources_are_formatted(forge):
    done = forge("fmt", "--check")

    assert done.returncode == 0, done.stdout


def test_the_linter_has_nothing_to_say(forge):
    done = forge("lint", "src")

    assert (done.returncode, done.stderr) == (0, "")
