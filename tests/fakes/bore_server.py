# SPDX-License-Identifier: Apache-2.0
"""A real SSH server with the protocol of DeepSquare's bore server."""

from __future__ import annotations

import socket
import threading
import time

import paramiko

# The token has characters that a shell would interpret.
TOKEN = "-tok'en$(x)"
URL = b"URL: https://route.example\r\n"
PUBLIC_PORT = 4321
TIMEOUT_S = 10


class BoreServer(paramiko.ServerInterface):
    """A server that serves one client at a time. It opens a port if the client sends TOKEN.

    Attributes:
        tokens: The tokens that the clients sent.
        forwards: The addresses and ports that the clients requested to forward.
    """

    def __init__(self, address="127.0.0.1"):
        self.key = paramiko.ECDSAKey.generate()
        self.listener = socket.create_server((address, 0))
        self.port = self.listener.getsockname()[1]
        self.tokens = []
        self.forwards = []
        self.transports = []
        self.ready = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(self.key)
            # The handlers below use the transport, so add it before the server starts.
            self.transports.append(transport)
            transport.start_server(server=self)

    def get_allowed_auths(self, _username):
        return "none"

    def check_auth_none(self, _username):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, _number):
        if kind == "session":
            return paramiko.OPEN_SUCCEEDED
        return paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_global_request(self, kind, message):
        if kind != "set-id":
            return False
        self.tokens.append(message.get_text())
        return self.tokens[-1] == TOKEN

    def check_port_forward_request(self, address, port):
        self.forwards.append((address, port))
        threading.Thread(target=self._send_url).start()
        return PUBLIC_PORT

    def _send_url(self):
        self.transports[-1].accept(TIMEOUT_S).sendall(URL)
        self.ready.set()

    def connect_visitor(self):
        """Return a visitor's connection to the open port.

        Retries until the client accepts the connection. Fails after TIMEOUT_S.
        """
        assert self.ready.wait(TIMEOUT_S)
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return self.transports[-1].open_forwarded_tcpip_channel(
                    ("192.0.2.1", 1), ("0.0.0.0", PUBLIC_PORT)
                )
            except paramiko.ChannelException:
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def disconnect(self):
        """Close the connection of the current client."""
        self.ready.clear()
        self.transports[-1].close()

    def stop_listening(self):
        """Refuse new connections."""
        if self.listener.fileno() >= 0:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()

    def stop(self):
        """Stop the server and close all connections."""
        self.stop_listening()
        self._thread.join(TIMEOUT_S)
        for transport in self.transports:
            transport.close()
            transport.join(TIMEOUT_S)
