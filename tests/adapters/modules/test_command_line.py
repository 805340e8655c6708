# SPDX-License-Identifier: Apache-2.0
"""Tests of the command `gridstead workflow` with modules from a real git server."""

from __future__ import annotations

import sys

import pytest

from gridstead.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs `gridstead workflow` and returns exit code, stdout and stderr."""
    monkeypatch.setenv("HOME", "/nonexistent")

    def gridstead(*arguments):
        monkeypatch.setattr(sys, "argv", ["gridstead", "workflow", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        stdout, stderr = capsys.readouterr()
        return caught.value.code or 0, stdout, stderr

    return gridstead


@pytest.fixture
def file(tmp_path, server, repository):
    """Return the file of a workflow that uses a module of the repository."""
    path = tmp_path / "workflow.yaml"
    path.write_text(
        "resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}\n"
        f"steps:\n- use: {{source: {server.host}/me/greet, args: [{{key: WHO, value: me}}]}}\n"
    )
    return path


def test_the_script_contains_the_module(run, file, server, certificates):
    code, script, _ = run(
        "render", file, "--module-host", server.host, "--module-ca-file", certificates[1]
    )

    assert code == 0
    assert "Hello $WHO" in script


def test_a_host_that_is_not_allowed_gets_no_request(run, file, server):
    code, _, stderr = run("render", file)

    assert code == 65
    assert "allowed hosts: none" in stderr
    assert server.requested == []


def test_an_unknown_argument_is_reported_only_if_modules_are_fetched(
    run, file, server, certificates
):
    file.write_text(file.read_text().replace("WHO", "WOH"))

    code, _, _ = run("validate", file)
    assert code == 0

    code, _, stderr = run(
        "validate", file, "--module-host", server.host, "--module-ca-file", certificates[1]
    )

    assert code == 65
    assert "line 3: steps[0].use.args[0].key: is not an input of the module: it has WHO" in stderr
