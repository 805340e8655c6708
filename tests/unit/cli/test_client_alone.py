# SPDX-License-Identifier: Apache-2.0
"""The client's commands need only the dependencies of `gridstead`, not those of `gridstead[site]`.

The tests block the import of every installed package that is not such a dependency.
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
IMPORT_BLOCKER = """
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
RUN_MAIN = "from gridstead.cli.main import main; main()"
IMPORT_MODULES = "for name in sys.argv[1:]: importlib.import_module(name)"
CLIENT_MODULES = (
    "check_config",
    "contracts_group",
    "credit",
    "decisions",
    "devnet",
    "job",
    "main",
    "provider",
    "submit",
    "wallet",
    "workflow",
)
CONFIG_EXIT = 78
USAGE_EXIT = 2
LOGGER_SETTINGS = """
log_token_key_file = "/etc/a"
storage_key_file = "/etc/b"
[tls]
certificate_file = "/etc/c"
key_file = "/etc/d"
"""


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(requirements: Iterable[str]) -> set[str]:
    """Return the distributions that the requirements install, including requested extras."""
    # Pairs of a distribution and one of its requested extras. The extra "" means the
    # distribution without extras.
    visited_requirements: set[tuple[str, str]] = set()
    pending_requirements = [(Requirement(text), "") for text in requirements]
    while pending_requirements:
        requirement, extra = pending_requirements.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = normalized(requirement.name)
        for requested_extra in {"", *requirement.extras}:
            if (name, requested_extra) not in visited_requirements:
                visited_requirements.add((name, requested_extra))
                needed_requirements = requirements_of(name)
                pending_requirements += [
                    (needed, requested_extra) for needed in needed_requirements
                ]
    return {name for name, _ in visited_requirements}


def requirements_of(name: str) -> Iterator[Requirement]:
    """Yield the requirements of an installed distribution."""
    try:
        yield from map(Requirement, requires(name) or ())
    except PackageNotFoundError:
        return  # Some requirements are for other operating systems and are not installed.


@pytest.fixture(scope="module")
def blocked():
    """Return the top-level modules of the packages that the client does not need."""
    needed_distributions = distributions(PROJECT["dependencies"])
    modules = set()
    for module, owners in packages_distributions().items():
        if module.startswith("gridstead"):
            continue
        needed_owners = needed_distributions.intersection(map(normalized, owners))
        if not needed_owners:
            modules.add(module)
    return modules


@pytest.fixture
def run_client(blocked):
    """Return a function that runs a Python program without the packages of a site."""

    def run(program, *arguments):
        interpreter = [sys.executable, "-c", IMPORT_BLOCKER + program]
        argv = [*interpreter, json.dumps(sorted(blocked)), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    return run


def test_the_blocked_packages_are_those_that_the_client_does_not_need(blocked):
    assert {"sqlalchemy", "structlog", "ldap3", "cryptography", "mfusepy"} <= blocked
    assert blocked.isdisjoint({"typer", "rich", "pydantic", "yaml", "grpc", "web3", "httpx"})


def test_modules_of_client_commands_can_be_imported(run_client):
    graph = grimp.build_graph("gridstead", exclude_type_checking_imports=True)
    graph.remove_module("gridstead.cli.site")  # It needs Ansible, which only a site has.
    roots = [f"gridstead.cli.{name}" for name in CLIENT_MODULES]
    modules = set(roots).union(*map(graph.find_upstream_modules, roots))

    result = run_client(IMPORT_MODULES, *sorted(modules))

    assert result.returncode == 0
    assert result.stderr == ""
    assert "gridstead.adapters.chain.customer" in modules


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("--help", 0, "Commands:"),
        ("submit --help", 0, "--credits"),
        ("workflow validate examples/hello-world.yaml", 0, ": valid"),
        ("check-config agent --config /nonexistent", CONFIG_EXIT, "cannot read /nonexistent"),
        ("credit balance --config /nonexistent", CONFIG_EXIT, "cannot read /nonexistent"),
        ("wallet new", USAGE_EXIT, "--keystore"),
    ],
)
def test_client_commands_run_without_the_packages_of_a_site(run_client, command, code, output):
    result = run_client(RUN_MAIN, *command.split())

    assert result.returncode == code, result.stderr
    assert output in result.stdout + result.stderr


def test_start_of_a_service_without_its_packages_reports_the_missing_extra(run_client, tmp_path):
    settings = tmp_path / "logger.toml"
    settings.write_text(LOGGER_SETTINGS)

    result = run_client(RUN_MAIN, "logger", "run", "--config", str(settings))

    assert result.returncode == CONFIG_EXIT
    assert result.stderr.startswith("error: this command needs gridstead[site]\n")
    assert "'structlog'" in result.stderr
