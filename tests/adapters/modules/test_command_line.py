# SPDX-License-Identifier: Apache-2.0
"""`gridstead workflow` with modules from a real git server."""

from __future__ import annotations

import sys

import pytest

from gridstead.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs `gridstead workflow`; returns the exit code and both outputs."""
    monkeypatch.setenv("HOME", "/nonexistent")

    def gridstead(*arguments):
        monkeypatch.setattr(sys, "argv", ["gridstead", "workflow", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *capsys.readouterr()

    return gridstead


@pytest.fixture
def file(tmp_path, server, repository):
    path = tmp_path / "workflow.yaml"
    path.write_text(
        "resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}\n"
        f"steps:\n- use: {{source: {server.host}/me/greet, args: [{{key: WHO, value: me}}]}}\n"
    )
    return path


def test_script_holds_the_module(run, file, server, certificates):
    code, script, _ = run(
        "render", file, "--module-host", server.host, "--module-ca-file", certificates[1]
    )

    assert code == 0
    assert "Hello $WHO" in script


def test_module_of_a_host_that_is_not_named_is_not_asked_for(run, file, server):
    code, _, told = run("render", file)

    assert code == 65
    assert "allowed hosts: none" in told
    assert server.asked == []


def test_wrong_argument_is_told_only_where_modules_are_looked_at(run, file, server, certificates):
    file.write_text(file.read_text().replace("WHO", "WOH"))

    assert run("validate", file)[0] == 0
    code, _, told = run(
        "validate", file, "--module-host", server.host, "--module-ca-file", certificates[1]
    )

    assert code == 65
    assert "line 3: steps[0].use.args[0].key: is not an input of the module: it has WHO" in told
