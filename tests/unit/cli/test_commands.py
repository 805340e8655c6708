# SPDX-License-Identifier: Apache-2.0
"""Tests of the list of commands, and of the commands that other Python distributions add.

`gridstead --help` prints the list without importing the modules of the commands.
"""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint
from typing import get_type_hints

import pytest

from gridstead import distributions
from gridstead.cli.commands import OWN_COMMANDS, SERVICE_SUMMARIES, LazyCommands
from gridstead.cli.service import WIRING
from gridstead.config import SERVICE_SETTINGS

CONFIG_EXIT = 78


@pytest.fixture
def no_distributions(monkeypatch):
    """Hide the installed distributions that add commands."""
    monkeypatch.setattr(distributions, "entry_points", lambda **_: ())


@pytest.fixture
def broken_distribution(monkeypatch):
    """Add a command whose distribution cannot be imported."""
    entry_point = EntryPoint("broken", "no_such_module:app", distributions.COMMANDS_GROUP)
    monkeypatch.setattr(distributions, "entry_points", lambda **_: (entry_point,))


@pytest.mark.parametrize("name", OWN_COMMANDS)
def test_list_of_commands_shows_the_first_paragraph_of_each_help(name):
    first_paragraph = LazyCommands()[name].help.split("\n\n")[0]

    assert " ".join(first_paragraph.split()) == OWN_COMMANDS[name].help


def test_each_service_has_a_settings_model_and_a_run_function():
    for service in SERVICE_SUMMARIES:
        run = importlib.import_module(WIRING[service]).run
        assert get_type_hints(run)["settings"] is SERVICE_SETTINGS[service]
    assert list(WIRING) == list(SERVICE_SUMMARIES)
    assert list(SERVICE_SETTINGS) == list(SERVICE_SUMMARIES)


def test_command_of_another_distribution_is_listed_with_the_summary_of_the_command(gridstead):
    result = gridstead("--help")

    summary = "Replicates, serves and mounts CVMFS repositories."
    assert f"  cvmfs             {summary}\n" in result.out


def test_list_of_commands_imports_no_optional_distribution(gridstead, broken_distribution):
    result = gridstead("--help")

    assert result.code == 0
    assert "  broken" in result.out


@pytest.mark.parametrize(
    "arguments", [("cvmfs", "status"), ("check-config", "cvmfs"), ("check-config", "cvmfs-client")]
)
def test_command_of_a_missing_distribution_names_the_package(
    gridstead, no_distributions, arguments
):
    result = gridstead(*arguments)

    assert result.code == CONFIG_EXIT
    assert result.out == ""
    assert result.err.startswith("error: gridstead-cvmfs is not installed\n")


def test_help_works_if_no_optional_distribution_is_installed(gridstead, no_distributions):
    result = gridstead("--help")

    assert result.code == 0
    assert "cvmfs" not in result.out
