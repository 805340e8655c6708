# SPDX-License-Identifier: Apache-2.0
"""The logger process raises its limit on the number of open files."""

from __future__ import annotations

import resource

from tests.fakes.logger_process import LoggerProcess

from gridstead.rpc.logs.server import MAX_STREAMS
from gridstead.rpc.logs.web import MAX_CONNECTIONS


def test_limit_of_open_files_is_higher_than_the_number_of_connections(tmp_path):
    """systemd starts a service with a limit of 1024 files. The logger must raise the limit."""
    logger = LoggerProcess(tmp_path)
    logger.start("prlimit", "--nofile=1024:")
    logger.wait()

    limit, _ = resource.prlimit(logger.process.pid, resource.RLIMIT_NOFILE)

    logger.kill()
    assert limit > MAX_STREAMS + MAX_CONNECTIONS
