# SPDX-License-Identifier: Apache-2.0
"""`gridstead-log-writer FILE [STDERR]`: copies a job's output to stdout and to the grid's logger.

It runs next to a job, on the job's node. It reads the job's stdout from its standard input, and the
job's stderr from the file descriptor STDERR. Without STDERR it reads both from the standard input,
and cannot distinguish them. Output that the logger has not received is spooled in FILE's folder; a
writer that is restarted after a kill continues with the spool. FILE has one value per line: the
logger's ``host:port``, a CA file or nothing, the log's owner, its name, its token. Errors of the
logger have no effect: the input is read to its end and the exit code is 0.
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

_STDIN, _STDOUT = 0, 1
_SPOOL = "spool"
_LINES = 6  # five values, and the empty text after the last line end


def main() -> None:
    """Run until the input ends."""
    access_file = Path(sys.argv[1])
    try:
        spool = Spool(access_file.with_name(_SPOOL))
    except OSError as error:
        sys.exit(f"gridstead: cannot create the spool for the logger: {error}")
    sender = LogSender(spool, lambda: _connect(access_file))
    sender.start()
    pump(_sources(sys.argv[2:]), _STDOUT, spool)
    lost = sender.finish()
    if lost:
        write_all(_STDOUT, b"gridstead: %d lines did not reach the logger\n" % lost)
    os._exit(0)  # so that a stuck connection does not delay the end of the job


def _sources(stderr: Sequence[str]) -> Mapping[int, Stream]:
    if not stderr:
        return {_STDIN: Stream.UNKNOWN}
    return {_STDIN: Stream.STDOUT, int(stderr[0]): Stream.STDERR}


def _connect(access_file: Path) -> Send:
    # Imported here, in the sender's thread, so that the input is read while grpc is imported.
    from gridstead.adapters.channel import GrpcPeer  # noqa: PLC0415
    from gridstead.adapters.logs.client import LoggerClient, WriteAccess  # noqa: PLC0415

    values = access_file.read_text(encoding="utf-8").split("\n")
    if len(values) != _LINES:
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
