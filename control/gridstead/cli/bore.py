# SPDX-License-Identifier: Apache-2.0
"""`gridstead-bore SERVER PORT`: opens a port of this host to everybody, at a bore server.

Runs beside a task, in its network. SERVER is ``host:port``. The token is the first line of the
standard input, as a command line is for everybody to read; an empty one is none. It goes on until
it is killed: a connection that ends is made again.
"""

from __future__ import annotations

import logging
import sys
import time
from functools import partial

from gridstead.adapters.bore import BoreTunnel, forward
from gridstead.adapters.log_stream import write_all
from gridstead.errors import GridsteadError

PAUSE_S = 10.0
_STDOUT, _STDERR = 1, 2


def main() -> None:
    """Run until killed."""
    host, _, port = sys.argv[1].rpartition(":")
    token = sys.stdin.readline().rstrip("\n")
    bore = BoreTunnel(
        host=host.strip("[]"), port=int(port), target_port=int(sys.argv[2]), token=token
    )
    logging.getLogger("paramiko").addHandler(
        logging.NullHandler()
    )  # what matters of its errors is told below
    while True:
        try:
            forward(bore, partial(write_all, _STDOUT))
        except GridsteadError as err:
            write_all(_STDERR, f"gridstead: {err}\n".encode())
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
