# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the workflow tests."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import Node


@pytest.fixture
def node(tmp_path):
    """Yield a simulated node. After the test, kill the jobs that still run on the node."""
    node = Node(tmp_path)
    yield node
    node.kill_jobs()
