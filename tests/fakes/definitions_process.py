# SPDX-License-Identifier: Apache-2.0
"""`gridstead job-definitions run` as a process on the loopback interface, with a real chain."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.devnet import CHAIN_ID, Devnet
from tests.fakes.certificates import Authority

from gridstead.adapters.channel import GrpcPeer

START_TIMEOUT_S = 120.0
KEY = "a-key-of-the-tests-that-seals-stored-scripts"
_MAIN = "from gridstead.cli.main import main; main()"


def free_port() -> int:
    """Return a TCP port of the loopback interface that no process uses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class DefinitionsProcess:
    """The service process, with its files in an existing folder.

    Args:
        folder: Folder of the certificate, keys, settings and output, and of an SQLite store.
        devnet: The chain.
        state_url: URL of the store; empty for an SQLite file in the folder.
        keys: Content of the storage key file.
        tables: Tables that are added to the settings or replace default tables, by name.
    """

    def __init__(
        self,
        folder: Path,
        devnet: Devnet,
        *,
        state_url: str = "",
        keys: str = KEY,
        **tables: dict[str, object],
    ) -> None:
        self.authority = Authority(folder)
        files = self.authority.issue("job-definitions")
        self.http_port, self.grpc_port = free_port(), free_port()
        self.state_url = state_url or f"sqlite:///{folder}/state.db"
        self.key_file = folder / "storage-keys"
        self.key_file.write_text(keys)
        (folder / "token-key").write_bytes(b"k" * 32)
        self.output = folder / "output"
        self._config = folder / "job-definitions.toml"
        settings = {
            "": {  # the settings that are in no table
                "graphql_listen": f"127.0.0.1:{self.http_port}",
                "grpc_listen": f"127.0.0.1:{self.grpc_port}",
                "state_url": self.state_url,
                "storage_key_file": str(self.key_file),
                "log_token_key_file": str(folder / "token-key"),
                "logger_endpoint": "localhost:8445",
            },
            "chain": {
                "rpc_url": devnet.anvil.url,
                "chain_id": CHAIN_ID,
                "contract": devnet.addresses["MetaScheduler"],
                "confirmations": 1,
            },
            "tls": {"certificate_file": str(files.certificate), "key_file": str(files.key)},
        }
        self._config.write_text(_toml(settings | tables))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://localhost:{self.http_port}/graphql"

    @property
    def peer(self) -> GrpcPeer:
        return GrpcPeer(address=f"localhost:{self.grpc_port}", ca=self.authority.certificate)

    def start(self) -> None:
        """Start the process. Do not wait for its ports."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, "job-definitions", "run", "--config", self._config],
                stdout=output,
                stderr=output,
                env={"PYTHONPATH": "control"},
            )

    def wait(self) -> None:
        """Wait until the process listens on both ports.

        Raises:
            AssertionError: If the process ends or does not listen in time. The message is
                its output.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        for port in (self.http_port, self.grpc_port):
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


def _toml(tables: dict[str, dict[str, object]]) -> str:
    lines: list[str] = []
    for name, table in tables.items():
        if name:
            lines.append(f"[{name}]")
        for key, value in table.items():
            text = str(value) if isinstance(value, int) else repr(value)
            lines.append(f"{key} = {text}")
    return "\n".join(lines) + "\n"
