# SPDX-License-Identifier: Apache-2.0
"""The hosts of the scenario's lab, over ssh."""

import pytest
import testinfra


@pytest.fixture(scope="session")
def on(request):
    """Return a function: the name of a host in, the host out."""
    ssh_config = request.config.getoption("--ssh-config")
    return lambda name: testinfra.get_host(f"ssh://{name}", ssh_config=ssh_config)
