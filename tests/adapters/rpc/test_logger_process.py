# SPDX-License-Identifier: Apache-2.0
"""The logger as a process of its own."""

from __future__ import annotations

import resource

from tests.fakes.logger_process import LoggerProcess

from gridstead.rpc.log_web import MAX_CONNECTIONS
from gridstead.rpc.logger import MAX_STREAMS


def test_readers_do_not_take_the_files_of_logs(tmp_path):
    """systemd lets a service have 1024 files unless it asks for more, and each reader may have a
    connection.
    """
    logger = LoggerProcess(tmp_path)
    logger.start("prlimit", "--nofile=1024:")
    logger.wait()

    files, _ = resource.prlimit(logger.process.pid, resource.RLIMIT_NOFILE)

    logger.kill()
    assert files > MAX_STREAMS + MAX_CONNECTIONS
