# SPDX-License-Identifier: Apache-2.0
"""Tests of the command `gridstead workflow` with modules from a real git server."""

from __future__ import annotations

import json
import sys

import pytest
from tests.adapters.modules.git_server import MODULE

from gridstead.cli import client_modules
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
def workflow_file(tmp_path, server, repository):
    """Return the file of a workflow that uses a module of the repository."""
    path = tmp_path / "workflow.yaml"
    path.write_text(
        "resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}\n"
        f"steps:\n- use: {{source: {server.host}/me/greet, args: [{{key: WHO, value: me}}]}}\n"
    )
    return path


def test_the_script_contains_the_module(run, workflow_file, server, certificates):
    code, script, _ = run(
        "render", workflow_file, "--module-host", server.host, "--module-ca-file", certificates[1]
    )

    assert code == 0
    assert "Hello $WHO" in script


def test_a_host_that_is_not_allowed_gets_no_request(run, workflow_file, server):
    code, _, stderr = run("render", workflow_file)

    assert code == 65
    assert "allowed hosts: github.com, gitlab.com, codeberg.org" in stderr
    assert f"to allow it, add --module-host {server.host}" in stderr
    assert server.requested == []


def test_validate_checks_the_arguments_of_modules_from_allowed_hosts_only(
    run, workflow_file, server, certificates
):
    workflow_file.write_text(workflow_file.read_text().replace("WHO", "WOH"))

    code, _, stderr = run("validate", workflow_file)
    assert code == 0
    assert f"note: module {server.host}/me/greet was not checked: its host is not allowed" in stderr
    assert f"add --module-host {server.host}" in stderr

    code, _, stderr = run(
        "validate", workflow_file, "--module-host", server.host, "--module-ca-file", certificates[1]
    )

    assert code == 65
    assert "line 3: steps[0].use.args[0].key: is not an input of the module: it has WHO" in stderr


def test_validate_lists_the_modules_that_were_not_checked_in_json(run, workflow_file, server):
    code, stdout, _ = run("validate", workflow_file, "--json")

    assert code == 0
    assert json.loads(stdout)["unchecked_modules"] == [f"{server.host}/me/greet"]


def test_validate_warns_of_unknown_keys_of_a_module(
    run, workflow_file, server, repository, certificates
):
    repository.commit({"module.yaml": f"{MODULE}despcription: x\n"})

    code, _, stderr = run(
        "validate", workflow_file, "--module-host", server.host, "--module-ca-file", certificates[1]
    )

    assert code == 0
    assert "warning: line 3: steps[0].use.source: is a module with a field that has no" in stderr
    assert "despcription: is not a known field" in stderr


@pytest.fixture
def public_host(monkeypatch, server):
    """Make the git server a public host whose CA is not known."""
    monkeypatch.setattr(client_modules, "PUBLIC_HOSTS", (server.host,))
    return server.host


def test_each_module_of_a_host_has_the_reason_of_the_first_failure(
    run, workflow_file, public_host, monkeypatch
):
    second_step = f"- use: {{source: {public_host}/me/other}}\n"
    workflow_file.write_text(workflow_file.read_text() + second_step)
    monkeypatch.setattr(client_modules, "_PROGRAMS", ("no-such-program",))

    code, _, stderr = run("validate", workflow_file)

    assert code == 0
    reason = "was not checked: no-such-program must be installed"
    assert stderr.splitlines() == [
        f"note: module {public_host}/me/greet {reason}",
        f"note: module {public_host}/me/other {reason}",
    ]


def test_public_hosts_are_contacted_without_an_option(run, workflow_file, server, public_host):
    code, _, stderr = run("validate", workflow_file)

    assert code == 0
    assert f"note: module {public_host}/me/greet was not checked: the host did not answer" in stderr

    code, _, stderr = run("render", workflow_file)

    assert code == 75
    assert f"could not fetch {public_host}/me/greet" in stderr
