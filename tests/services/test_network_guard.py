# SPDX-License-Identifier: Apache-2.0
"""Tests that the fixture which blocks the network is active in service tests."""

import socket

import pytest
from tests.network_guard import NetworkUsed


def test_connection_to_another_host_is_refused(request):
    """The guard is active although the test does not request the fixture before the attempt."""
    with pytest.raises(NetworkUsed):
        socket.create_connection(("192.0.2.1", 9), timeout=1)

    request.getfixturevalue("network_attempts").clear()
