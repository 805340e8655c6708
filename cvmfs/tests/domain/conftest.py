# SPDX-License-Identifier: Apache-2.0
"""Blocks the network in the tests of the domain."""

from tests.network_guard import network_attempts  # noqa: F401 - a fixture
