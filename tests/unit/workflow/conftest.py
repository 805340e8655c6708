# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the workflow tests."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import Node
from tests.unit.workflow.runtimes import APPTAINER, ENROOT, install


@pytest.fixture
def node(tmp_path):
    """Yield a simulated node. After the test, kill the jobs that still run on the node."""
    node = Node(tmp_path)
    yield node
    node.kill_jobs()


@pytest.fixture
def apptainer(node):
    """Install Apptainer on the node."""
    install(node, "apptainer", APPTAINER)


@pytest.fixture(params=["apptainer", "enroot"])
def runtime(request, node, apptainer):
    """Return the runtime that the node uses. Each test runs once per runtime."""
    if request.param == "enroot":
        install(node, "enroot", ENROOT)
    return request.param
