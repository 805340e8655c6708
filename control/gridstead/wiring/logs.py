# SPDX-License-Identifier: Apache-2.0
"""Creates and runs the logger, for `gridstead logger run`."""

from __future__ import annotations

import resource

from gridstead.adapters.chain.wallet import recover
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.logs.files import FileLogs, Limits
from gridstead.config import LoggerSettings
from gridstead.rpc.logs.server import LoggerServer
from gridstead.rpc.logs.web import WebAddress
from gridstead.services.logs.logger import Logger
from gridstead.wiring import loop
from gridstead.wiring.credentials import read_key, tls_files
from gridstead.wiring.loop import Tick

MIB = 1024 * 1024
DAY_S = 24 * 3600
SWEEP_INTERVAL_S = 600.0
MAX_OPEN_FILES = 8192  # gRPC streams, connections of browsers, log files


def run(settings: LoggerSettings) -> None:
    """Run the logger until it is stopped."""
    _raise_open_file_limit()
    logs = FileLogs(
        settings.storage_directory,
        key=read_key(settings.storage_key_file),
        limits=Limits(
            log_bytes=settings.max_log_mib * MIB,
            owner_bytes=settings.max_owner_mib * MIB,
            age_s=settings.retention_days * DAY_S,
        ),
    )
    service = Logger(
        store=logs,
        key=read_key(settings.log_token_key_file),
        clock=SystemClock(),
        recover=recover,
    )
    server = LoggerServer(settings.listen, tls_files(settings.tls), service, _web(settings))
    server.start()
    sweep = Tick(name="sweep", function=service.sweep, interval_s=SWEEP_INTERVAL_S)
    loop.run((sweep,), close=(logs.close, server.stop))


def _raise_open_file_limit() -> None:
    """Raise the limit of open files. systemd's default of 1024 is too low for all streams."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(MAX_OPEN_FILES, hard_limit), hard_limit))


def _web(settings: LoggerSettings) -> WebAddress | None:
    if not settings.web_origins:
        return None
    host, _, port = settings.web_listen.rpartition(":")
    return WebAddress(host=host, port=int(port), origins=settings.web_origins)
