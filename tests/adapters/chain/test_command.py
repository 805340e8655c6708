# SPDX-License-Identifier: Apache-2.0
"""The command line on a chain with the contracts of DeepSquare 1.2.

The tests in the lab run the command line on a chain with Gridstead's contracts.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.adapters.chain.grids import join_real_grid
from tests.adapters.chain.test_refusals import COMMAND, definitions, person

__all__ = ["definitions", "person"]  # the imported fixtures

ADMINISTRATOR = 1  # number of the wallet that deployed the contracts


@pytest.fixture
def generation():
    """All tests of this module use a chain with the contracts of DeepSquare 1.2."""
    return "1.2"


def run_json(user, *arguments):
    """Run a command, assert that it succeeds, and return the JSON that the command prints."""
    command = [COMMAND, *arguments, "--json", "--config", str(user.folder / "settings.toml")]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_jobs_are_listed_shown_and_cancelled(person, chain):
    user, grid = person(), join_real_grid(chain)
    number = grid.request("script-1", name="my job")
    grid.match(number)
    grid.claim()

    (listed_job,) = run_json(user, "job", "list")
    assert (listed_job["name"], listed_job["state"]) == ("my job", "SCHEDULED")
    history = run_json(user, "job", "history", str(number))
    assert [step["state"] for step in history] == ["PENDING", "META_SCHEDULED", "SCHEDULED"]
    assert run_json(user, "job", "cancel", str(number))["state"] == "CANCELLED"
    (provider,) = run_json(user, "provider", "list")
    assert provider["address"] == grid.provider


def test_administrator_removes_a_provider(person, chain):
    administrator, grid = person(ADMINISTRATOR), join_real_grid(chain)
    (provider,) = run_json(administrator, "provider", "list")
    assert (provider["address"], provider["state"]) == (grid.provider, "joined")

    result = run_json(administrator, "provider", "remove", grid.provider)

    assert result == {"address": grid.provider, "state": "not joined"}
    assert run_json(administrator, "provider", "list") == []
