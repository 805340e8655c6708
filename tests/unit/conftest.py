# SPDX-License-Identifier: Apache-2.0
"""Unit tests have no network."""

from tests.network_guard import network_attempts  # noqa: F401 - a fixture
