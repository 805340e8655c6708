# SPDX-License-Identifier: Apache-2.0
"""The hosts of a scenario's lab, over ssh."""

import functools
import tempfile

import pytest
import testinfra


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Run the tests as they are written, not in random order: the hosts keep their state from test
    to test.
    """
    places = {item: place for place, item in enumerate(items)}
    result = yield
    items.sort(key=places.__getitem__)
    return result


@pytest.fixture(scope="session")
def on(request):
    """Return a function: the name of a host in, the host out. Commands of one host share a
    connection.
    """
    ssh_config = request.config.getoption("--ssh-config")
    # A socket's path is at most 108 characters, 57 of them ssh's own, and a checkout may be
    # anywhere.
    with tempfile.TemporaryDirectory() as folder:
        sockets = f"{folder}/%%C"  # testinfra takes it as a format
        yield functools.cache(
            lambda name: testinfra.get_host(
                f"ssh://{name}", ssh_config=ssh_config, controlpath=sockets
            )
        )
