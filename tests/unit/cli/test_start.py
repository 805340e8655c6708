# SPDX-License-Identifier: Apache-2.0
"""Commands that use no chain start quickly: they import only what they need.

``tests/bench/start.py`` measures the time.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Prints the modules that a command has imported, after the command's own output.
PROGRAM = """
import json, sys
from gridstead.cli.main import main
try:
    main()
except SystemExit as end:
    print(file=sys.stderr)
    print(json.dumps([end.code or 0, sorted(sys.modules)]), file=sys.stderr)
"""
CHAIN = {"coincurve", "eth_abi", "eth_account", "eth_keys", "eth_utils", "web3"}
SITE = {
    "ansible_runner",
    "apscheduler",
    "ariadne",
    "cryptography",
    "fabric",
    "graphql",
    "ldap3",
    "mfusepy",
    "paramiko",
    "prometheus_client",
    "psycopg",
    "sqlalchemy",
    "starlette",
    "structlog",
    "uvicorn",
}
PEERS = {"google", "grpc", "httpx"}


@pytest.fixture
def files(tmp_path):
    """Files for the commands, by name."""
    workflow, keystore = tmp_path / "workflow.yaml", tmp_path / "wallet.json"
    resources = "{tasks: 1, cpusPerTask: 1, memPerCpu: 100, gpus: 0}"
    workflow.write_text(f"resources: {resources}\nsteps: [{{run: {{command: hostname}}}}]\n")
    keystore.write_text(json.dumps({"address": "ab" * 20}))
    return {"WORKFLOW": str(workflow), "KEYSTORE": str(keystore)}


def imported(*arguments):
    """Return the modules that a command imports. The command must succeed."""
    argv = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


NONE_OF_OURS = {"yaml", "gridstead.config", "gridstead.workflow", "gridstead_cvmfs"}


@pytest.mark.parametrize(
    ("command", "unused"),
    [
        ("--help", {"pydantic", *NONE_OF_OURS}),
        ("--version", {"pydantic", *NONE_OF_OURS}),
        # Typer imports pydantic, if it is installed, to read the parameters of a command.
        ("submit --help", NONE_OF_OURS),
        ("job list --help", NONE_OF_OURS),
        ("wallet address --keystore KEYSTORE", NONE_OF_OURS),
        ("workflow validate WORKFLOW", {"gridstead.config", "gridstead_cvmfs"}),
        ("workflow schema", {"gridstead.config", "gridstead_cvmfs"}),
        ("check-config --help", {"gridstead.workflow", "gridstead_cvmfs"}),
        ("supervisor run --help", {"gridstead.workflow", "gridstead_cvmfs"}),
        ("cvmfs snapshot --help", {"gridstead.workflow"}),
    ],
)
def test_a_command_that_uses_no_chain_imports_only_what_it_needs(files, command, unused):
    arguments = [files.get(word, word) for word in command.split()]

    modules = imported(*arguments)

    assert modules & (CHAIN | SITE | PEERS | unused) == set()
