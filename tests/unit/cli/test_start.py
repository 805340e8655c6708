# SPDX-License-Identifier: Apache-2.0
"""Commands that do not use the chain import only the packages that they need.

This makes the commands start quickly. ``tests/bench/start.py`` measures the time.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Runs a command, then prints its exit code and the imported modules as the last line of stderr.
RUN_AND_PRINT_MODULES = """
import json, sys
from gridstead.cli.main import main
try:
    main()
except SystemExit as exit:
    print(file=sys.stderr)
    print(json.dumps([exit.code or 0, sorted(sys.modules)]), file=sys.stderr)
"""
CHAIN_PACKAGES = {
    "aiohttp",  # web3.py imports it
    "coincurve",
    "eth_abi",
    "eth_account",
    "eth_keys",
    "eth_utils",
    "requests",
    "web3",
    "websockets",  # web3.py imports it
}
SITE_PACKAGES = {
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
NETWORK_PACKAGES = {"google", "grpc", "httpx"}
# Packages that only templates of modules need.
TEMPLATE_PACKAGES = {"re2"}
# Packages that only some commands need.
COMMAND_PACKAGES = {"yaml", "gridstead.config", "gridstead.workflow", "gridstead_cvmfs"}


@pytest.fixture
def paths_by_placeholder(tmp_path):
    """Return the paths that replace the words WORKFLOW and KEYSTORE of a command line."""
    workflow = tmp_path / "workflow.yaml"
    keystore = tmp_path / "wallet.json"
    resources = "{tasks: 1, cpusPerTask: 1, memPerCpu: 100, gpus: 0}"
    workflow.write_text(f"resources: {resources}\nsteps: [{{run: {{command: hostname}}}}]\n")
    keystore.write_text(json.dumps({"address": "ab" * 20}))
    return {"WORKFLOW": str(workflow), "KEYSTORE": str(keystore)}


def imported_modules(*arguments):
    """Return the modules that a command imports. The command must succeed."""
    argv = [sys.executable, "-c", RUN_AND_PRINT_MODULES, *arguments]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    code, modules = json.loads(result.stderr.splitlines()[-1])
    assert code == 0, result.stderr
    return set(modules)


@pytest.mark.parametrize(
    ("command", "unused"),
    [
        ("--help", {"pydantic", *COMMAND_PACKAGES}),
        ("--version", {"pydantic", *COMMAND_PACKAGES}),
        # Typer imports pydantic, if it is installed, to read the parameters of a command.
        ("submit --help", COMMAND_PACKAGES),
        ("contracts status --help", COMMAND_PACKAGES),
        ("job list --help", COMMAND_PACKAGES),
        ("wallet address --keystore KEYSTORE", COMMAND_PACKAGES),
        ("workflow validate WORKFLOW", {"gridstead.config", "gridstead_cvmfs"}),
        ("workflow schema", {"gridstead.config", "gridstead_cvmfs"}),
        ("check-config --help", {"gridstead.workflow", "gridstead_cvmfs"}),
        ("supervisor run --help", {"gridstead.workflow", "gridstead_cvmfs"}),
        ("cvmfs snapshot --help", {"gridstead.workflow"}),
    ],
)
def test_command_imports_only_the_packages_that_it_needs(paths_by_placeholder, command, unused):
    arguments = [paths_by_placeholder.get(word, word) for word in command.split()]

    modules = imported_modules(*arguments)

    forbidden = CHAIN_PACKAGES | SITE_PACKAGES | NETWORK_PACKAGES | TEMPLATE_PACKAGES | unused
    assert modules & forbidden == set()
