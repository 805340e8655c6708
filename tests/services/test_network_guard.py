# SPDX-License-Identifier: Apache-2.0
"""Service tests reach no other host than this one."""

import socket

import pytest
from tests.network_guard import NetworkUsed


def test_a_connection_to_another_host_is_refused(request):
    """The fixture is asked for afterwards only, so this shows that each test here has it."""
    with pytest.raises(NetworkUsed):
        socket.create_connection(("192.0.2.1", 9), timeout=1)

    request.getfixturevalue("network_attempts").clear()
