# SPDX-License-Identifier: Apache-2.0
"""What the command line reads and does on contracts of the first generation; with ours every lab
test walks it.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.test_refusals import COMMAND, definitions, person

__all__ = ["definitions", "person"]

ADMINISTRATOR = 1  # number of the wallet that deployed the contracts


@pytest.fixture
def generation():
    return "1.2"


def told(someone, *arguments):
    """Run a command that succeeds and return the JSON that it prints."""
    command = [COMMAND, *arguments, "--json", "--config", str(someone.folder / "settings.toml")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_jobs_are_listed_looked_at_and_cancelled(person, chain):
    someone, grid = person(), RealGrid(chain)
    grid.register()
    grid.approve()
    number = grid.request("script-1", name="my job")
    grid.match(number)
    grid.claim()

    (listed,) = told(someone, "job", "list")
    assert (listed["name"], listed["state"]) == ("my job", "SCHEDULED")
    lived = [step["state"] for step in told(someone, "job", "history", str(number))]
    assert lived == ["PENDING", "META_SCHEDULED", "SCHEDULED"]
    assert told(someone, "job", "cancel", str(number))["state"] == "CANCELLED"
    (provider,) = told(someone, "provider", "list")
    assert provider["address"] == grid.provider


def test_a_provider_is_removed_by_an_administrator(person, chain):
    administrator, grid = person(ADMINISTRATOR), RealGrid(chain)
    grid.register()
    grid.approve()
    (joined,) = told(administrator, "provider", "list")

    removed = told(administrator, "provider", "remove", grid.provider)

    assert (joined["address"], joined["state"]) == (grid.provider, "joined")
    assert removed == {"address": grid.provider, "state": "not joined"}
    assert told(administrator, "provider", "list") == []
