# SPDX-License-Identifier: Apache-2.0
"""Prints the output of a job: the lines that exist, or also new lines while the job writes them."""

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

if TYPE_CHECKING:  # The import takes a second.
    from gridstead.adapters.logs.client import Lines


class JobStream(StrEnum):
    """The values of `--stream`."""

    STDOUT = auto()
    STDERR = auto()


_STREAMS_ON_STDERR = frozenset({Stream.STDERR, Stream.GRID})
# For each value of --stream: the stream whose lines are not printed.
_HIDDEN_STREAM = {JobStream.STDOUT: Stream.STDERR, JobStream.STDERR: Stream.STDOUT}

IDLE_TIMEOUT_S = 5.0
RETRY_S = 1.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLine:
    """A line of a job's output.

    Attributes:
        number: The number of the line in the log, from 1.
        data: The bytes that the job wrote, without the line end. The bytes may be invalid UTF-8.
        timestamp_ns: When the line was written, nanoseconds since the epoch.
        stream: The stream to which the line was written.
    """

    number: int
    data: bytes
    timestamp_ns: int
    stream: Stream

    @property
    def text(self) -> str:
        """The line as text. Bytes that are not UTF-8 are replaced."""
        return self.data.decode(errors="replace")


class JobOutput:
    """Prints the lines of a job's output, each line once and in order.

    If the logger does not answer, this class asks again and continues after the last printed line.

    Args:
        client: The connection of the job's customer to the grid.
        job: The job.
        print_output: Prints a line.

    Attributes:
        error: The last error. None if reading has succeeded since that error.
    """

    def __init__(
        self, client: GridClient, job: Job, print_output: Callable[[OutputLine], None]
    ) -> None:
        self._client = client
        self._job = job
        self._print = print_output
        self._print_lock = threading.Lock()
        self._is_stopped = False
        self._last_printed = 0  # the number of a line
        self._resume_position = 0  # the position in the log after which reading continues
        self._received_at = 0.0  # a time of the monotonic clock
        self.error: GridsteadError | None = None

    def start(self) -> None:
        """Start a thread that prints lines as the job writes them."""
        self._client.wallet.open()  # Opening takes a second. Do it before the first line.
        threading.Thread(target=self._run, kwargs={"until_now": False}, daemon=True).start()

    def print_remaining(self) -> None:
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
        with self._print_lock:
            self._is_stopped = True

    def _run(self, *, until_now: bool) -> None:
        while not self._is_stopped:
            try:
                for lines in read(
                    self._client, self._job, after=self._resume_position, until_now=until_now
                ):
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
        with self._print_lock:
            for number, data in enumerate(lines.lines, lines.first):
                if self._is_stopped or number <= self._last_printed:
                    continue
                line = OutputLine(
                    number=number, data=data, timestamp_ns=lines.timestamp_ns, stream=lines.stream
                )
                self._print(line)
                self._last_printed = number
            self._resume_position = max(self._resume_position, lines.resume)
            self._received_at = time.monotonic()
            self.error = None


def read(client: GridClient, job: Job, *, after: int, until_now: bool) -> Iterator[Lines]:
    """Yield the lines of a job's output.

    Args:
        client: The connection of the job's customer to the grid.
        job: The job.
        after: The position in the log after which reading starts. 0 is the beginning.
        until_now: Whether to end after the lines that exist now. Otherwise, the iterator waits for
            more lines and never ends.
    """
    from gridstead.adapters.channel import GrpcPeer  # noqa: PLC0415 - slow import
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


def filter_stream(
    stream: JobStream, print_output: Callable[[OutputLine], None]
) -> Callable[[OutputLine], None]:
    """Return a function that prints all lines except those of the job's other stream.

    Messages of the grid, and lines whose stream is unknown, are printed for both streams.
    """

    def print_if_selected(line: OutputLine) -> None:
        if line.stream is not _HIDDEN_STREAM[stream]:
            print_output(line)

    return print_if_selected


def print_escaped(line: OutputLine) -> None:
    """Print a line with control characters escaped.

    Lines of the job's stderr and messages of the grid are printed on stderr.
    """
    if line.stream in _STREAMS_ON_STDERR:
        print_note(line.text)
    else:
        print_line(line.text)


def print_raw(line: OutputLine) -> None:
    """Print the bytes of a line unchanged.

    Lines of the job's stderr and messages of the grid are printed on stderr.
    """
    stream = sys.stderr if line.stream in _STREAMS_ON_STDERR else sys.stdout
    stream.buffer.write(line.data + b"\n")
    stream.buffer.flush()


def print_as_json(line: OutputLine) -> None:
    """Print a line as a JSON object on one line, so that a reader need not wait for the end."""
    record = {
        "line": line.text,
        "number": line.number,
        "stream": line.stream.name.lower(),
        "timestamp_ns": line.timestamp_ns,
    }
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()
