# SPDX-License-Identifier: Apache-2.0
"""Service tests connect to no other host."""

import socket

import pytest
from tests.network_guard import NetworkUsed


def test_a_connection_to_another_host_is_refused(request):
    """The test requests the fixture only after the check: every service test has it."""
    with pytest.raises(NetworkUsed):
        socket.create_connection(("192.0.2.1", 9), timeout=1)

    request.getfixturevalue("network_attempts").clear()
