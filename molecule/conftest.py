# SPDX-License-Identifier: Apache-2.0
"""A fixture that connects to the hosts of a scenario's lab over ssh."""

import functools
import tempfile

import pytest
import testinfra


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Restore the order of the tests in their file, because later tests depend on earlier ones."""
    positions = {item: position for position, item in enumerate(items)}
    result = yield
    items.sort(key=positions.__getitem__)
    return result


@pytest.fixture(scope="session")
def get_host(request):
    """Return a function that returns the testinfra host with a name.

    The commands on one host share an ssh connection.
    """
    ssh_config = request.config.getoption("--ssh-config")
    # The path of a socket can have at most 107 bytes, and ssh adds 57 bytes to the folder's path. A
    # folder in the checkout can be too deep, so the sockets are in a temporary folder.
    with tempfile.TemporaryDirectory() as folder:
        sockets = f"{folder}/%%C"  # testinfra formats this text with %

        @functools.cache
        def connect(name):
            return testinfra.get_host(f"ssh://{name}", ssh_config=ssh_config, controlpath=sockets)

        yield connect
