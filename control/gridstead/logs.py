# SPDX-License-Identifier: Apache-2.0
"""Sets up logging: JSON lines on stdout, or readable lines on a terminal."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict

from gridstead.domain.jobs.ids import JobId


def set_up(level: str) -> None:
    """Write events of at least this level to stdout, one line per event."""
    terminal = sys.stdout.isatty()
    renderer = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _with_job_number,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
    # A tick that takes longer than its interval is not worth a warning.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    # The loggers of servers with threads and of asynchronous servers.
    for name in ("grpc._common", "grpc._cython.cygrpc"):
        logging.getLogger(name).addFilter(_is_not_decode_error)


def _with_job_number(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Log a job by its number."""
    job_id = event.get("job_id")
    if isinstance(job_id, JobId):
        event["job_id"] = job_id.number
    return event


def _is_not_decode_error(record: logging.LogRecord) -> bool:
    """Return whether a record must be logged.

    A message that cannot be decoded is not logged. The client receives an error, and an unknown
    client could fill the log with such records.
    """
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "DecodeError"
