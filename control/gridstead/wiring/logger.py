# SPDX-License-Identifier: Apache-2.0
"""gridstead logger run."""

from __future__ import annotations

from gridstead.adapters.chain.wallet import recover
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.logs import FileLogs
from gridstead.config import LoggerSettings
from gridstead.rpc.logger import LoggerServer
from gridstead.services.logger import Logger
from gridstead.wiring import loop
from gridstead.wiring.job_definitions import read_key, to_files


def run(settings: LoggerSettings) -> None:
    """Run the logger until it is stopped."""
    service = Logger(
        sink=FileLogs(settings.storage_directory),
        key=read_key(settings.log_token_key_file),
        clock=SystemClock(),
        recover=recover,
    )
    server = LoggerServer(settings.listen, to_files(settings.tls), service)
    server.start()
    loop.run((), close=(server.stop,))
