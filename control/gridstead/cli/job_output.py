# SPDX-License-Identifier: Apache-2.0
"""A job's output as it comes, printed by a thread of its own."""

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
from gridstead.cli.output import say, tell
from gridstead.domain.job import Job
from gridstead.domain.log import Stream, log_identity_of
from gridstead.errors import GridsteadError, Transient

if TYPE_CHECKING:  # takes a second to import
    from gridstead.adapters.logger import Lines


class JobStream(StrEnum):
    """What `--stream` takes."""

    STDOUT = auto()
    STDERR = auto()


_BESIDE = frozenset({Stream.STDERR, Stream.GRID})
_OTHER = {JobStream.STDOUT: Stream.STDERR, JobStream.STDERR: Stream.STDOUT}

PATIENCE_S = 5.0
RETRY_S = 1.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLine:
    """A line of a job's output.

    Attributes:
        number: In the log, from 1.
        data: Without its end, as the job wrote it: it may hold anything.
        timestamp_ns: When it was written, nanoseconds since the epoch.
        stream: Where it came from.
    """

    number: int
    data: bytes
    timestamp_ns: int
    stream: Stream

    @property
    def text(self) -> str:
        """The line as text; what is no UTF-8 is replaced."""
        return self.data.decode(errors="replace")


class JobOutput:
    """Shows a job's lines, each once and in order; goes on where it was after an outage.

    Args:
        client: The job's owner.
        job: Whose output.
        show: Prints a line.
    """

    def __init__(self, client: GridClient, job: Job, show: Callable[[OutputLine], None]) -> None:
        self._client, self._job = client, job
        self._print = show
        self._printing = threading.Lock()
        self._stopped = False
        self._shown = 0
        self._resume = 0
        self._moved_at = 0.0
        self.error: GridsteadError | None = None

    def start(self) -> None:
        """Begin to show lines as they come."""
        self._client.wallet.open()  # takes a second, and should be over before there are lines
        threading.Thread(target=self._run, kwargs={"until_now": False}, daemon=True).start()

    def drain(self) -> None:
        """Show what there is until now; gives up when nothing comes for seconds. Lines may go on to
        come beside it.
        """
        self._client.wallet.open()
        self._moved_at = time.monotonic()
        thread = threading.Thread(target=self._run, kwargs={"until_now": True}, daemon=True)
        thread.start()
        while thread.is_alive() and time.monotonic() - self._moved_at <= PATIENCE_S:
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Print nothing any more; threads end with the process."""
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
                if not self._stopped and number > self._shown:
                    self._print(
                        OutputLine(
                            number=number,
                            data=data,
                            timestamp_ns=lines.timestamp_ns,
                            stream=lines.stream,
                        )
                    )
                    self._shown = number
            self._resume = max(self._resume, lines.resume)
            self._moved_at = time.monotonic()
            self.error = None


def read(client: GridClient, job: Job, *, after: int, until_now: bool) -> Iterator[Lines]:
    """Yield the lines of a job's output behind a place; does not end by itself unless that is
    wanted.
    """
    from gridstead.adapters.channel import GrpcPeer  # noqa: PLC0415 - takes a second to import
    from gridstead.adapters.logger import LoggerClient, LogQuery  # noqa: PLC0415

    peer = client.settings.logger
    query = LogQuery(
        owner=job.customer,
        log_name=job.id.slurm_name,
        log_identity=log_identity_of(job.job_key),
        after=after,
        until_now=until_now,
    )
    logger = LoggerClient(GrpcPeer(address=peer.endpoint, ca=peer.ca_file))
    try:
        yield from logger.read(query, now=int(time.time()), sign=client.wallet.sign_text)
    finally:
        logger.close()


def only(
    stream: JobStream, show_line: Callable[[OutputLine], None]
) -> Callable[[OutputLine], None]:
    """Return what shows a line unless it is known to be of the job's other stream."""
    return lambda line: None if line.stream is _OTHER[stream] else show_line(line)


def show(line: OutputLine) -> None:
    """Print a line without what a terminal would act on; on stderr if it is stderr's or not of the
    job.
    """
    (tell if line.stream in _BESIDE else say)(line.text)


def show_raw(line: OutputLine) -> None:
    """Print a line as the job wrote it; on stderr if it is stderr's or not of the job."""
    into = (sys.stderr if line.stream in _BESIDE else sys.stdout).buffer
    into.write(line.data + b"\n")
    into.flush()


def show_as_json(line: OutputLine) -> None:
    """Print one JSON object per line, as the output may have no end."""
    record = {
        "line": line.text,
        "number": line.number,
        "stream": line.stream.name.lower(),
        "timestamp_ns": line.timestamp_ns,
    }
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()
