# SPDX-License-Identifier: Apache-2.0
"""Records of the state of a host, for the tests of the modules of role footprint."""

import pytest
from ansible_collections.gridstead.site.plugins.modules import footprint_record as record
from ansible_collections.gridstead.site.plugins.modules import footprint_remove as remove
from tests.roles.footprint.commands import HOST_STATE


@pytest.fixture
def etc(tmp_path):
    folder = tmp_path / "etc"
    folder.mkdir()
    return folder


@pytest.fixture
def make_record(tmp_path, etc):
    """A function that records the present state of the host and returns the record.

    Its arguments replace values of HOST_STATE.
    """

    def write_record(**host):
        record.write(tmp_path / "before", {**HOST_STATE, **host}, etc)
        return remove.Record(tmp_path / "before")

    return write_record
