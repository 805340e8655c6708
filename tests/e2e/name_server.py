# SPDX-License-Identifier: Apache-2.0
"""A name server in this process, for steps with networks of their own."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator

NAME, ANSWER = "somewhere.test", "192.0.2.77"


class Names(socketserver.BaseRequestHandler):
    """A name server that knows one address."""

    def handle(self) -> None:
        """Answer a question for an address; there are none of IPv6."""
        asked, back = self.request
        question = asked[12 : asked.index(b"\0", 12) + 5]
        found = question[-4:-2] == b"\0\1" and NAME.split(".", maxsplit=1)[0].encode() in question
        answer = (
            b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 60, 4) + socket.inet_aton(ANSWER)
            if found
            else b""
        )
        back.sendto(
            asked[:2] + b"\x81\x80" + struct.pack(">4H", 1, found, 0, 0) + question + answer,
            self.client_address,
        )


@contextlib.contextmanager
def running(address: str) -> Iterator[None]:
    """Answer questions at an address."""
    with socketserver.ThreadingUDPServer((address, 53), Names) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
