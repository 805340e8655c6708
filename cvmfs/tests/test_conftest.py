# SPDX-License-Identifier: Apache-2.0
"""The CVMFS tests use the pytest settings of the whole project."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def test_cvmfs_tests_use_the_common_pytest_settings():
    """Module ``tests`` must be the folder ``tests`` of the project, not ``cvmfs/tests``."""
    settings = Path(sys.modules["tests.conftest"].__file__)

    assert settings == CHECKOUT / "tests/conftest.py"
    assert os.environ["GRPC_ENABLE_FORK_SUPPORT"] == "false"
