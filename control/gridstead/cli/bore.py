# SPDX-License-Identifier: Apache-2.0
"""`gridstead-bore SERVER PORT`: exposes a port of this host on a bore server, for every client.

It runs next to a task, in the task's network. SERVER is ``host:port``. The token is the first line
of the standard input, because every user can read a command line; an empty line means no token. The
command runs until it is killed, and reconnects when a connection ends.
"""

from __future__ import annotations

import logging
import sys
import time
from functools import partial

from gridstead.adapters.jobs.bore import BoreTunnel, forward
from gridstead.adapters.logs.stream import write_all
from gridstead.errors import GridsteadError

PAUSE_S = 10.0
_STDOUT, _STDERR = 1, 2


def main() -> None:
    """Run until the process is killed."""
    host, _, port = sys.argv[1].rpartition(":")
    token = sys.stdin.readline().rstrip("\n")
    bore = BoreTunnel(
        host=host.strip("[]"), port=int(port), target_port=int(sys.argv[2]), token=token
    )
    # The errors of paramiko that matter are reported below.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    while True:
        try:
            forward(bore, partial(write_all, _STDOUT))
        except GridsteadError as err:
            write_all(_STDERR, f"gridstead: {err}\n".encode())
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
