# SPDX-License-Identifier: Apache-2.0
"""The commands are found without an import of their modules, also those of other distributions."""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint
from typing import get_type_hints

import pytest

from gridstead import distributions
from gridstead.cli.commands import OWN, SERVICES, Commands
from gridstead.cli.service import WIRING
from gridstead.config import SERVICES as MODELS

CONFIG = 78


@pytest.fixture
def no_distributions(monkeypatch):
    """Hide the other distributions."""
    monkeypatch.setattr(distributions, "entry_points", lambda **_: ())


@pytest.fixture
def broken_distribution(monkeypatch):
    """Install a distribution whose module does not exist."""
    entry_point = EntryPoint("broken", "no_such_module:app", distributions.COMMANDS)
    monkeypatch.setattr(distributions, "entry_points", lambda **_: (entry_point,))


@pytest.mark.parametrize("name", OWN)
def test_the_list_of_commands_has_the_first_sentence_of_their_help(name):
    sentence = " ".join(Commands()[name].help.split("\n\n")[0].split())

    assert sentence == OWN[name].help


def test_each_service_has_a_model_and_a_function_that_runs_it():
    for service in SERVICES:
        run = importlib.import_module(WIRING[service]).run
        assert get_type_hints(run)["settings"] is MODELS[service]
    assert list(WIRING) == list(SERVICES) == list(MODELS)


def test_the_commands_of_other_distributions_are_listed_with_their_summary(gridstead):
    done = gridstead("--help")

    assert (
        "  cvmfs             Replicates CVMFS repositories and serves the replicas.\n" in done.out
    )


def test_a_list_of_commands_imports_no_other_distribution(gridstead, broken_distribution):
    done = gridstead("--help")

    assert (done.code, "  broken" in done.out) == (0, True)


@pytest.mark.parametrize(
    "arguments", [("cvmfs", "status"), ("check-config", "cvmfs"), ("check-config", "cvmfs-client")]
)
def test_a_distribution_that_is_not_installed_is_named(gridstead, no_distributions, arguments):
    done = gridstead(*arguments)

    assert (done.code, done.out) == (CONFIG, "")
    assert done.err.startswith("error: gridstead-cvmfs is not installed\n")


def test_the_client_works_without_other_distributions(gridstead, no_distributions):
    done = gridstead("--help")

    assert (done.code, "cvmfs" in done.out) == (0, False)
