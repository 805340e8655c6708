# SPDX-License-Identifier: Apache-2.0
"""The hosts of a scenario's lab, over ssh."""

import functools
from pathlib import Path

import pytest
import testinfra


@pytest.fixture(scope="session")
def on(request):
    """Return a function: the name of a host in, the host out. Commands of one host share a connection."""
    ssh_config = request.config.getoption("--ssh-config")
    sockets = str(Path(ssh_config).parent / "tests-%%C")  # testinfra takes it as a format
    return functools.cache(lambda name: testinfra.get_host(f"ssh://{name}", ssh_config=ssh_config, controlpath=sockets))
