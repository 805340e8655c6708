# SPDX-License-Identifier: Apache-2.0
"""A service of the grid as a process, such as `gridstead supervisor run`. Tests can kill it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

START_TIMEOUT_S = 120.0
_CHECKOUT = Path(__file__).resolve().parents[2]
_MAIN = "from gridstead.cli.main import main; main()"


def free_port() -> int:
    """Return a TCP port of the loopback interface that no process uses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class ServiceProcess:
    """The process of a service. Its settings file and its output are in an existing folder.

    Args:
        service: The name of the service, which is also the name of its group of commands.
        folder: The folder.
        settings: The tables of the settings by name. The empty name contains the settings that are
            in no table.
        ports: The TCP ports of the loopback interface on which the process will listen.
        environment: Variables of the process.

    Attributes:
        output: The file with the output of all starts.
        process: The process that was started last.
    """

    def __init__(
        self,
        service: str,
        folder: Path,
        settings: Mapping[str, Mapping[str, object]],
        *,
        ports: tuple[int, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.service = service
        self.output = folder / "output"
        self.process: subprocess.Popen[bytes] | None = None
        self._ports = ports
        self._environment = {"PYTHONPATH": str(_CHECKOUT / "control"), **(environment or {})}
        self._config = folder / f"{service}.toml"
        self._config.write_text(_toml(settings))

    def start(self) -> None:
        """Start the process. Do not wait for its ports."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, self.service, "run", "--config", self._config],
                stdout=output,
                stderr=output,
                env=self._environment,
            )

    def wait(self) -> None:
        """Wait until the process listens on its ports.

        Raises:
            AssertionError: If the process ends or does not listen in time. The message is its
                output.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        for port in self._ports:
            while not _is_listening(port):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise AssertionError(self.output.read_text())
                time.sleep(0.02)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """Stop the process with SIGTERM, as systemd does, and return its exit code."""
        self.process.terminate()
        return self.process.wait(START_TIMEOUT_S)


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _toml(tables: Mapping[str, Mapping[str, object]]) -> str:
    lines: list[str] = []
    for name, table in tables.items():
        if name:
            lines.append(f"[{name}]")
        for key, value in table.items():
            text = repr(str(value)) if isinstance(value, Path) else repr(value)
            lines.append(f"{key} = {text}")
    return "\n".join(lines) + "\n"
