# SPDX-License-Identifier: Apache-2.0
"""The client's commands need only the dependencies of `gridstead`, not those of `gridstead[site]`.

The packages of this environment that these dependencies do not bring cannot be imported here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement

CHECKOUT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
PROGRAM = """
import importlib, json, sys
blocked = set(json.loads(sys.argv.pop(1)))

class Blocker:
    @staticmethod
    def find_spec(name, path=None, target=None):
        root = name.partition(".")[0]
        if root in blocked:
            raise ModuleNotFoundError(f"No module named {root!r}", name=root)

sys.meta_path.insert(0, Blocker)
"""
COMMAND = "from gridstead.cli.main import main; main()"
IMPORT = "for name in sys.argv[1:]: importlib.import_module(name)"
GROUPS = (
    "check_config", "contracts_group", "credit", "devnet", "job", "main", "provider", "submit",
    "wallet", "workflow",
)  # fmt: skip
CONFIG, USAGE = 78, 2
LOGGER = """
log_token_key_file = "/etc/a"
storage_key_file = "/etc/b"
[tls]
certificate_file = "/etc/c"
key_file = "/etc/d"
"""


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(requirements: Iterable[str]) -> set[str]:
    """Return the distributions that requirements install, those of their extras included."""
    installed: set[str] = set()
    pending = [(Requirement(text), "") for text in requirements]
    while pending:
        requirement, extra = pending.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = normalized(requirement.name)
        for inner in {"", *requirement.extras}:
            if (key := f"{name}[{inner}]") not in installed:
                installed.add(key)
                pending += [(needed, inner) for needed in requirements_of(name)]
    return {key.partition("[")[0] for key in installed}


def requirements_of(name: str) -> Iterator[Requirement]:
    try:
        yield from map(Requirement, requires(name) or ())
    except PackageNotFoundError:
        return  # only on other systems


@pytest.fixture(scope="module")
def blocked():
    """The top-level modules of the packages that the client does not install."""
    client = distributions(PROJECT["dependencies"])
    return {
        module
        for module, owners in packages_distributions().items()
        if client.isdisjoint(map(normalized, owners)) and not module.startswith("gridstead")
    }


@pytest.fixture
def client(blocked, tmp_path):
    """Runs a program with only the packages of the client."""

    def run(program, *arguments):
        argv = [sys.executable, "-c", PROGRAM + program, json.dumps(sorted(blocked)), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    return run


def test_packages_of_a_site_are_blocked_and_those_of_the_client_are_not(blocked):
    assert {"sqlalchemy", "structlog", "ldap3", "cryptography", "web3", "mfusepy"} <= blocked
    assert blocked.isdisjoint({"typer", "rich", "pydantic", "yaml", "grpc", "eth_account", "httpx"})


def test_every_module_that_the_clients_commands_use_can_be_imported(client):
    graph = grimp.build_graph("gridstead", exclude_type_checking_imports=True)
    graph.remove_module("gridstead.cli.site")  # runs Ansible on a site
    groups = [f"gridstead.cli.{name}" for name in GROUPS]
    modules = set(groups).union(*map(graph.find_upstream_modules, groups))

    done = client(IMPORT, *sorted(modules))

    assert (done.returncode, done.stderr) == (0, "")
    assert "gridstead.adapters.chain.customer" in modules


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("--help", 0, "Commands:"),
        ("submit --help", 0, "--credits"),
        ("workflow validate examples/hello-world.yaml", 0, ": valid"),
        ("check-config agent --config /nonexistent", CONFIG, "cannot read /nonexistent"),
        ("credit balance --config /nonexistent", CONFIG, "cannot read /nonexistent"),
        ("wallet new", USAGE, "--keystore"),
    ],
)
def test_client_commands_run_without_the_packages_of_a_site(client, command, code, output):
    done = client(COMMAND, *command.split())

    assert done.returncode == code, done.stderr
    assert output in done.stdout + done.stderr


def test_a_service_without_the_packages_of_a_site_names_the_extra(client, tmp_path):
    settings = tmp_path / "logger.toml"
    settings.write_text(LOGGER)

    done = client(COMMAND, "logger", "run", "--config", str(settings))

    assert done.returncode == CONFIG
    assert done.stderr.startswith("error: this command needs gridstead[site]\n")
    assert "'structlog'" in done.stderr
