# SPDX-License-Identifier: Apache-2.0
"""A git server whose certificate is signed by a test CA."""

from __future__ import annotations

import pytest
from tests.adapters.modules.git_server import GitServer, Repository
from tests.fakes.certificates import Authority
from tests.fakes.store import FakeClock

from gridstead.adapters.definitions.modules import Bounds, GitModules
from gridstead.workflow.schema import ModuleSource


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Return a server certificate and the certificate of its CA."""
    authority = Authority(tmp_path_factory.mktemp("pki"))
    return authority.issue("git"), authority.certificate


@pytest.fixture
def server(tmp_path, certificates):
    (tmp_path / "repositories").mkdir()
    git = GitServer(tmp_path / "repositories", certificates[0])
    yield git
    git.stop()


@pytest.fixture
def repository(server):
    return Repository(server.root)


@pytest.fixture
def clock():
    return FakeClock()


class Modules:
    """The adapter under test. Module sources are written without the server's host."""

    def __init__(self, server, clock, ca_file):
        self.server, self.clock, self.ca_file = server, clock, ca_file
        self.adapter = self.new()

    def new(self, **bounds):
        """Return another adapter with an empty cache."""
        return GitModules(
            (self.server.host,), clock=self.clock, ca_file=self.ca_file, bounds=Bounds(**bounds)
        )

    def text(self, source, adapter=None):
        return (adapter or self.adapter).text(ModuleSource.parse(f"{self.server.host}/{source}"))


@pytest.fixture
def modules(server, clock, certificates):
    return Modules(server, clock, certificates[1])
