# SPDX-License-Identifier: Apache-2.0
"""`gridstead-log-writer FILE [STDERR]`: a job's output to standard output, and to the grid's
logger.

Runs beside a job on its node. The job's stdout is its standard input, and STDERR is the number of
the descriptor that its stderr comes by; without one both come by standard input and are not told
apart. What waits for the logger lies beside FILE; a writer that is started again after it was
killed goes on with that. FILE has one value per line: the logger's ``host:port``, a CA file or
nothing, the log's owner, its name, its token. Whatever happens to the logger, the input is read to
its end and the exit code is 0.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gridstead.adapters.log_spool import Spool
from gridstead.adapters.log_stream import LogSender, Send, pump, write_all
from gridstead.domain.log import Chunk, Stream
from gridstead.errors import ConfigError

_STDIN, _STDOUT = 0, 1
_SPOOL = "spool"
_LINES = 6  # five values and what follows the last line end: nothing


def main() -> None:
    """Run until the input ends."""
    access_file = Path(sys.argv[1])
    try:
        spool = Spool(access_file.with_name(_SPOOL))
    except OSError as error:
        sys.exit(f"gridstead: no place for output on its way to the logger: {error}")
    sender = LogSender(spool, lambda: _connect(access_file))
    sender.start()
    pump(_sources(sys.argv[2:]), _STDOUT, spool)
    lost = sender.finish()
    if lost:
        write_all(_STDOUT, b"gridstead: %d lines did not reach the logger\n" % lost)
    os._exit(0)  # a stuck connection must not hold up the end of the job


def _sources(stderr: Sequence[str]) -> Mapping[int, Stream]:
    if not stderr:
        return {_STDIN: Stream.UNKNOWN}
    return {_STDIN: Stream.STDOUT, int(stderr[0]): Stream.STDERR}


def _connect(access_file: Path) -> Send:
    # Imported here, in the sender's thread: the input is read while grpc loads.
    from gridstead.adapters.channel import GrpcPeer  # noqa: PLC0415
    from gridstead.adapters.logger import LoggerClient, WriteAccess  # noqa: PLC0415

    values = access_file.read_text(encoding="utf-8").split("\n")
    if len(values) != _LINES or not all(values[place] for place in (0, 2, 3, 4)):
        raise ConfigError(f"cannot send the output: {access_file} does not say where")
    address, ca, owner, log_name, token, _ = values
    client = LoggerClient(GrpcPeer(address=address, ca=Path(ca) if ca else None))
    access = WriteAccess(owner=owner, log_name=log_name, token=token)

    def send(chunks: Sequence[Chunk]) -> None:
        client.write(access, chunks)

    return send


if __name__ == "__main__":
    main()
