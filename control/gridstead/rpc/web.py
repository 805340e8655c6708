# SPDX-License-Identifier: Apache-2.0
"""A web server that runs in its own thread."""

from __future__ import annotations

import threading
import time

import uvicorn
from starlette.applications import Starlette

from gridstead.errors import ConfigError
from gridstead.rpc.tls import TlsFiles

START_TIMEOUT_S = 10.0  # how long start() waits for the server
_POLL_INTERVAL_S = 0.01


class WebServer:
    """Serves an application.

    Args:
        app: The application.
        name: Name of the thread.
        host: Address to listen on.
        port: Port to listen on. 0 selects a free port.
        tls: Certificate and key of the server; None for plain HTTP.
    """

    def __init__(
        self, app: Starlette, *, name: str, host: str, port: int, tls: TlsFiles | None
    ) -> None:
        for path in (tls.certificate, tls.key) if tls else ():
            if not path.is_file():
                raise ConfigError(f"could not read {path}", detail="the file does not exist")
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            ssl_certfile=str(tls.certificate) if tls else None,
            ssl_keyfile=str(tls.key) if tls else None,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
            proxy_headers=False,  # any client could send such headers
        )
        self._address = f"{host}:{port}"
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> int:
        """Start the server and return the port.

        Raises:
            ConfigError: If the address cannot be bound.
        """
        self._thread.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise ConfigError(f"could not listen on {self._address}")
            time.sleep(_POLL_INTERVAL_S)
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    def stop(self) -> None:
        """Stop the server."""
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        try:
            self._server.run()
        except SystemExit:
            return  # uvicorn could not listen; start() detects that the thread has ended
