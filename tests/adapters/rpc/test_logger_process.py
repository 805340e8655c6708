# SPDX-License-Identifier: Apache-2.0
"""The logger as a separate process."""

from __future__ import annotations

import resource

from tests.fakes.logger_process import LoggerProcess

from gridstead.rpc.logs.server import MAX_STREAMS
from gridstead.rpc.logs.web import MAX_CONNECTIONS


def test_the_limit_of_open_files_exceeds_that_of_readers(tmp_path):
    """A service under systemd can open 1024 files unless it raises the limit, and each reader can
    have a connection.
    """
    logger = LoggerProcess(tmp_path)
    logger.start("prlimit", "--nofile=1024:")
    logger.wait()

    files, _ = resource.prlimit(logger.process.pid, resource.RLIMIT_NOFILE)

    logger.kill()
    assert files > MAX_STREAMS + MAX_CONNECTIONS
