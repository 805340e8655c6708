# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of modules. A module is a part of a workflow, stored in a git repository.

The fixtures are a git server with a certificate of a test CA, and the adapter that fetches modules.
"""

from __future__ import annotations

import pytest
from tests.adapters.modules.git_server import GitServer, Repository
from tests.fakes.certificates import Authority
from tests.fakes.store import FakeClock

from gridstead.adapters.definitions.modules import Bounds, GitModules
from gridstead.workflow.schema import ModuleSource


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Return the certificate of the git server and the certificate of its CA."""
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
    """Return the repository ``me/greet`` of the server, which contains a module."""
    return Repository(server.root)


@pytest.fixture
def clock():
    return FakeClock()


class ModuleFetcher:
    """The adapter under test, with a method that adds the server's host to a module's source."""

    def __init__(self, server, clock, ca_file):
        self.server, self.clock, self.ca_file = server, clock, ca_file
        self.adapter = self.new_adapter()

    def new_adapter(self, **bounds):
        """Return an adapter with an empty cache."""
        return GitModules(
            (self.server.host,), clock=self.clock, ca_file=self.ca_file, bounds=Bounds(**bounds)
        )

    def text(self, source, adapter=None):
        """Return the text of the module at a source such as ``me/greet@v1``."""
        adapter = adapter or self.adapter
        return adapter.text(ModuleSource.parse(f"{self.server.host}/{source}"))


@pytest.fixture
def fetcher(server, clock, certificates):
    return ModuleFetcher(server, clock, certificates[1])
