# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a folder and the options of a valid route for module traefik_configuration."""

import pytest
from tests.fakes.certificates import Authority
from tests.roles.conftest import LoadedInventory
from tests.roles.traefik.gateway import LDAPS, ROUTE, module_options, render_configuration


@pytest.fixture
def folder(tmp_path):
    """A folder with the certificate and the key that the configuration names."""
    files = Authority(tmp_path).issue("gateway", "a.test")
    files.certificate.rename(tmp_path / "tls.crt")
    files.key.rename(tmp_path / "tls.key")
    return tmp_path


@pytest.fixture
def options(site: LoadedInventory, folder):
    """The module's options for a valid route."""
    static, dynamic = render_configuration(
        site,
        folder,
        traefik_ca_file=f"{folder}/ca.crt",
        traefik_routes=[{**ROUTE, "allowed": ["127.0.0.1"]}],
        **LDAPS,
    )
    return module_options(folder, static, dynamic)
