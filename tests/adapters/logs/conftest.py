# SPDX-License-Identifier: Apache-2.0
"""The logs that the tests of log files and of port LogStore write and read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridstead.adapters.logs.files import FileLogs, Limits
from gridstead.domain.logs.log import Chunk, LogId, to_lines

OWNER = "0x" + "ab" * 20
OTHER = "0x" + "cd" * 20
KEY = b"k" * 32
LOG = LogId(owner=OWNER, name="job", log_identity="1" * 32)
# A log with the name of LOG and a different identity. It is written after LOG.
LATER_LOG = replace(LOG, log_identity="0" * 32)


def chunk(data, timestamp_ns=1, **fields):
    return Chunk(data=data, timestamp_ns=timestamp_ns, **fields)


def lines(logs, log=LOG, after=0):
    """Return the lines of a log after a position."""
    result = []
    for stored_chunk in logs.read(log, after=after):
        result += to_lines(stored_chunk.chunk.data)
    return result


@pytest.fixture
def files(tmp_path):
    """Encrypted log files. A log has at most 600 bytes."""
    logs = FileLogs(tmp_path, key=KEY, limits=Limits(log_bytes=600))
    yield logs
    logs.close()
