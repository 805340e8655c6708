# SPDX-License-Identifier: Apache-2.0
"""What several test files of services share."""

from __future__ import annotations

import pytest
from tests.services.scene import Scene


@pytest.fixture
def scene():
    return Scene(enableLogging=True)
