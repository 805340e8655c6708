# SPDX-License-Identifier: Apache-2.0
"""`gridstead-log-writer FILE [STDERR[,GRID]]`: copies a job's output to stdout and to the logger.

The program runs on the node of a job. It reads the job's stdout from standard input, the job's
stderr from the file descriptor STDERR, and messages of the job's script from the file descriptor
GRID. Without STDERR, the program reads both streams from standard input, and cannot distinguish
them. The program ends when stdout and stderr have ended.

FILE contains one value per line: the ``host:port`` of the logger, a CA file or an empty line, the
owner of the log, the name of the log, and the token for writing the log. Output that the logger
has not received is spooled in the folder of FILE. A writer that is restarted after a kill continues
with the spool.

Errors of the logger do not affect the job: the input is read to its end, and the exit code is 0.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gridstead.adapters.logs.spool import Spool
from gridstead.adapters.logs.stream import LogSender, Send, pump, write_all
from gridstead.domain.logs.log import Chunk, Stream
from gridstead.errors import ConfigError

_STDIN = 0
_STDOUT = 1
_SPOOL_NAME = "spool"
_LINES_OF_FILE = 6  # five values, and the empty text after the last line end


def main() -> None:
    """Run until the input ends."""
    access_file = Path(sys.argv[1])
    try:
        spool = Spool(access_file.with_name(_SPOOL_NAME))
    except OSError as error:
        sys.exit(f"gridstead: cannot create the spool for the logger: {error}")
    sender = LogSender(spool, lambda: _connect(access_file))
    sender.start()
    pump(_streams_by_descriptor(sys.argv[2:]), _STDOUT, spool)
    lost_lines = sender.finish()
    if lost_lines:
        write_all(_STDOUT, b"gridstead: %d lines did not reach the logger\n" % lost_lines)
    os._exit(0)  # A normal exit would wait for a stuck connection and delay the end of the job.


def _streams_by_descriptor(arguments: Sequence[str]) -> Mapping[int, Stream]:
    """Return the stream of the job that each file descriptor reads."""
    if not arguments:
        return {_STDIN: Stream.UNKNOWN}
    descriptors = map(int, arguments[0].split(","))
    # Scripts of earlier releases have no descriptor of GRID.
    pairs = zip(descriptors, (Stream.STDERR, Stream.GRID), strict=False)
    return {_STDIN: Stream.STDOUT, **dict(pairs)}


def _connect(access_file: Path) -> Send:
    """Return a function that sends chunks to the logger that FILE names."""
    # The import of grpc is slow. It happens in the sender's thread, so that the main thread can
    # read the input at the same time.
    from gridstead.adapters.channel import GrpcPeer  # noqa: PLC0415
    from gridstead.adapters.logs.client import LoggerClient, WriteAccess  # noqa: PLC0415

    values = access_file.read_text(encoding="utf-8").split("\n")
    if len(values) != _LINES_OF_FILE:
        raise ConfigError(f"cannot send the output: {access_file} does not have 5 lines")
    address, ca, owner, log_name, token, _ = values
    if not (address and owner and log_name and token):
        raise ConfigError(f"cannot send the output: a value is missing in {access_file}")
    client = LoggerClient(GrpcPeer(address=address, ca=Path(ca) if ca else None))
    access = WriteAccess(owner=owner, log_name=log_name, token=token)

    def send(chunks: Sequence[Chunk]) -> None:
        client.write(access, chunks)

    return send


if __name__ == "__main__":
    main()
