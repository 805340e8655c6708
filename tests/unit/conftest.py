# SPDX-License-Identifier: Apache-2.0
"""The fixture that blocks the network in all unit tests."""

from tests.network_guard import network_attempts  # noqa: F401 - a fixture
