# SPDX-License-Identifier: Apache-2.0
"""Sets up the logging of services: JSON lines, or coloured text on a terminal."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict

from gridstead.domain.jobs.ids import JobId


def set_up(level: str) -> None:
    """Write events of this level and above to stdout, one line per event."""
    is_terminal = sys.stdout.isatty()
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if is_terminal:
        renderer = structlog.dev.ConsoleRenderer()
    min_level = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _with_job_number,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(min_level),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
    # apscheduler logs a warning when a tick takes longer than its interval. This is normal.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    # Servers with threads use the first logger of gRPC, and asynchronous servers the second one.
    for name in ("grpc._common", "grpc._cython.cygrpc"):
        logging.getLogger(name).addFilter(_is_not_decode_error)


def _with_job_number(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Replace the JobId in an event by the number of the job."""
    job_id = event.get("job_id")
    if isinstance(job_id, JobId):
        event["job_id"] = job_id.number
    return event


def _is_not_decode_error(record: logging.LogRecord) -> bool:
    """Return whether a record of gRPC is logged. False if gRPC could not decode a message.

    The client receives the error. The error is not logged, so that clients cannot fill the log.
    """
    exception_class = record.exc_info[0] if record.exc_info else None
    return exception_class is None or exception_class.__name__ != "DecodeError"
