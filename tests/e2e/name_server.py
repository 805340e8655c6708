# SPDX-License-Identifier: Apache-2.0
"""A DNS server in the test process, for steps with private networks."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator

NAME, ANSWER = "somewhere.test", "192.0.2.77"


class DnsHandler(socketserver.BaseRequestHandler):
    """The handler of a DNS server that knows one name."""

    def handle(self) -> None:
        """Answer a query for the A record of the known name. Other queries get an empty answer."""
        query, server_socket = self.request
        # The question follows the header of 12 bytes: name, zero byte, type and class.
        question = query[12 : query.index(b"\0", 12) + 5]
        is_a_record = question[-4:-2] == b"\0\1"
        is_known = is_a_record and NAME.split(".", maxsplit=1)[0].encode() in question
        answer = b""
        if is_known:
            # A pointer to the name in the question, type A, class IN, TTL (60 s), length, address.
            answer = b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 60, 4) + socket.inet_aton(ANSWER)
        counts = struct.pack(">4H", 1, is_known, 0, 0)
        flags = b"\x81\x80"  # a response without an error
        response = query[:2] + flags + counts + question + answer
        server_socket.sendto(response, self.client_address)


@contextlib.contextmanager
def run_name_server(address: str) -> Iterator[None]:
    """Run the DNS server on an address during the ``with`` block."""
    with socketserver.ThreadingUDPServer((address, 53), DnsHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
