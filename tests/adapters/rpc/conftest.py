# SPDX-License-Identifier: Apache-2.0
"""Certificates for servers on the loopback."""

from __future__ import annotations

import pytest
from tests.fakes.certificates import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def server_tls(authority):
    return authority.issue("server")
