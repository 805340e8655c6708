# SPDX-License-Identifier: Apache-2.0
"""The fixture that blocks the network in all tests of this folder."""

from tests.network_guard import network_attempts  # noqa: F401 - a fixture
