# SPDX-License-Identifier: Apache-2.0
"""Logging set-up: JSON lines on stdout, or readable ones on a terminal."""

from __future__ import annotations

import logging
import sys

import structlog


def set_up(level: str) -> None:
    """Send events of at least this level to stdout, one line each."""
    terminal = sys.stdout.isatty()
    renderer = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
    logging.getLogger("apscheduler").setLevel(
        logging.ERROR
    )  # that a tick outlasted its interval is no news
    for name in (
        "grpc._common",
        "grpc._cython.cygrpc",
    ):  # servers with threads, and asynchronous ones
        logging.getLogger(name).addFilter(_is_of_ours)


def _is_of_ours(record: logging.LogRecord) -> bool:
    """Leave out that a stranger's bytes are no message: the stranger is told, and could fill the
    log with it.
    """
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "DecodeError"
