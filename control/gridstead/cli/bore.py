# SPDX-License-Identifier: Apache-2.0
"""`gridstead-bore SERVER PORT`: exposes a port of this host on a bore server, to anyone.

The program runs next to a task, in the network namespace of the task. SERVER is ``host:port``. The
first line of the standard input is the token, or empty if the server needs no token. The token is
not an argument, because every user of the host can read a command line. The program runs until it
is killed, and reconnects when the connection ends.
"""

from __future__ import annotations

import logging
import sys
import time
from functools import partial

from gridstead.adapters.jobs.bore import BoreTunnel, forward
from gridstead.adapters.logs.stream import write_all
from gridstead.errors import GridsteadError

RECONNECT_S = 10.0
_STDOUT = 1
_STDERR = 2


def main() -> None:
    """Run until the process is killed."""
    host, _, port = sys.argv[1].rpartition(":")
    token = sys.stdin.readline().rstrip("\n")
    bore = BoreTunnel(
        host=host.strip("[]"), port=int(port), target_port=int(sys.argv[2]), token=token
    )
    # The loop below prints the errors of paramiko. The handler stops paramiko from printing them.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    while True:
        try:
            forward(bore, partial(write_all, _STDOUT))
        except GridsteadError as error:
            write_all(_STDERR, f"gridstead: {error}\n".encode())
        time.sleep(RECONNECT_S)


if __name__ == "__main__":
    main()
