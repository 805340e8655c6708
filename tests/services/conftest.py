# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of the services."""

from __future__ import annotations

import pytest
from tests.network_guard import network_attempts  # noqa: F401 - a fixture
from tests.services.definitions.script_setup import DefinitionsSetup


@pytest.fixture
def definitions_setup():
    return DefinitionsSetup(enableLogging=True)
