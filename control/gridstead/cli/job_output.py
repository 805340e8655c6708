# SPDX-License-Identifier: Apache-2.0
"""Prints a job's output while it is written, in a separate thread."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import TYPE_CHECKING

from gridstead.cli.client import GridClient
from gridstead.cli.output import print_line, print_note
from gridstead.domain.jobs.job import Job
from gridstead.domain.logs.log import Stream, log_of
from gridstead.errors import GridsteadError, Transient

if TYPE_CHECKING:  # takes a second to import
    from gridstead.adapters.logs.client import Lines


class JobStream(StrEnum):
    """The values of `--stream`."""

    STDOUT = auto()
    STDERR = auto()


_TO_STDERR = frozenset({Stream.STDERR, Stream.GRID})
_OTHER = {JobStream.STDOUT: Stream.STDERR, JobStream.STDERR: Stream.STDOUT}

IDLE_TIMEOUT_S = 5.0
RETRY_S = 1.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLine:
    """A line of a job's output.

    Attributes:
        number: Its number in the log, from 1.
        data: The bytes that the job wrote, without the line end; any bytes are possible.
        timestamp_ns: When it was written, nanoseconds since the epoch.
        stream: The stream that it was written to.
    """

    number: int
    data: bytes
    timestamp_ns: int
    stream: Stream

    @property
    def text(self) -> str:
        """The line as text; bytes that are not UTF-8 are replaced."""
        return self.data.decode(errors="replace")


class JobOutput:
    """Prints the lines of a job's output, each once and in order; continues after an outage.

    Args:
        client: The job's customer.
        job: The job.
        show: Prints a line.
    """

    def __init__(self, client: GridClient, job: Job, show: Callable[[OutputLine], None]) -> None:
        self._client, self._job = client, job
        self._print = show
        self._printing = threading.Lock()
        self._stopped = False
        self._shown = 0
        self._resume = 0
        self._received_at = 0.0
        self.error: GridsteadError | None = None

    def start(self) -> None:
        """Start to print lines as they are written."""
        self._client.wallet.open()  # takes a second, so open it before the first line
        threading.Thread(target=self._run, kwargs={"until_now": False}, daemon=True).start()

    def drain(self) -> None:
        """Print the lines that exist now.

        Returns early if no line is received for ``IDLE_TIMEOUT_S``. A thread that ``start``
        created continues to print.
        """
        self._client.wallet.open()
        self._received_at = time.monotonic()
        thread = threading.Thread(target=self._run, kwargs={"until_now": True}, daemon=True)
        thread.start()
        while thread.is_alive() and time.monotonic() - self._received_at <= IDLE_TIMEOUT_S:
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop printing. The threads end with the process."""
        with self._printing:
            self._stopped = True

    def _run(self, *, until_now: bool) -> None:
        while not self._stopped:
            try:
                for lines in read(self._client, self._job, after=self._resume, until_now=until_now):
                    self._show(lines)
            except Transient as error:
                self.error = error
            except GridsteadError as error:
                self.error = error
                return
            else:
                if until_now:
                    self.error = None
                    return
            time.sleep(RETRY_S)

    def _show(self, lines: Lines) -> None:
        with self._printing:
            for number, data in enumerate(lines.lines, lines.first):
                if self._stopped or number <= self._shown:
                    continue
                line = OutputLine(
                    number=number, data=data, timestamp_ns=lines.timestamp_ns, stream=lines.stream
                )
                self._print(line)
                self._shown = number
            self._resume = max(self._resume, lines.resume)
            self._received_at = time.monotonic()
            self.error = None


def read(client: GridClient, job: Job, *, after: int, until_now: bool) -> Iterator[Lines]:
    """Yield the lines of a job's output.

    Args:
        client: The job's customer.
        job: The job.
        after: The position after which to start; 0 for the beginning.
        until_now: End after the lines that exist now; else wait for more lines forever.
    """
    from gridstead.adapters.channel import GrpcPeer  # noqa: PLC0415 - takes a second to import
    from gridstead.adapters.logs.client import LoggerClient, LogQuery  # noqa: PLC0415

    peer = client.settings.logger
    log = log_of(job)
    request = LogQuery(
        owner=log.owner,
        log_name=log.name,
        log_identity=log.log_identity,
        after=after,
        until_now=until_now,
    )
    logger = LoggerClient(GrpcPeer(address=peer.endpoint, ca=peer.ca_file))
    try:
        yield from logger.read(request, now=int(time.time()), sign=client.wallet.sign_text)
    finally:
        logger.close()


def only(
    stream: JobStream, show_line: Callable[[OutputLine], None]
) -> Callable[[OutputLine], None]:
    """Return a function that prints a line unless it is of the job's other stream."""

    def show_if_selected(line: OutputLine) -> None:
        if line.stream is not _OTHER[stream]:
            show_line(line)

    return show_if_selected


def show(line: OutputLine) -> None:
    """Print a line with control characters escaped.

    Lines of stderr and messages of the grid are printed on stderr.
    """
    if line.stream in _TO_STDERR:
        print_note(line.text)
    else:
        print_line(line.text)


def show_raw(line: OutputLine) -> None:
    """Print a line unchanged; on stderr if it is of stderr or a message of the grid."""
    stream = sys.stderr if line.stream in _TO_STDERR else sys.stdout
    stream.buffer.write(line.data + b"\n")
    stream.buffer.flush()


def show_as_json(line: OutputLine) -> None:
    """Print a line as a JSON object on one line; the output as a whole may never end."""
    record = {
        "line": line.text,
        "number": line.number,
        "stream": line.stream.name.lower(),
        "timestamp_ns": line.timestamp_ns,
    }
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()
