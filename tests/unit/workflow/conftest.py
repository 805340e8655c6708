# SPDX-License-Identifier: Apache-2.0
"""What tests of the workflow language share."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import Node


@pytest.fixture
def node(tmp_path):
    machine = Node(tmp_path)
    yield machine
    machine.end()
