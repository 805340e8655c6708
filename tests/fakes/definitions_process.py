# SPDX-License-Identifier: Apache-2.0
"""`gridstead job-definitions run` as a process of its own, on the loopback, beside a real chain."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.devnet import CHAIN_ID, Devnet
from tests.fakes.certificates import Authority

from gridstead.adapters.channel import GrpcPeer

START_S = 120.0
KEY = "a-key-of-the-tests-that-seals-stored-scripts"
_MAIN = "from gridstead.cli.main import main; main()"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class DefinitionsProcess:
    """The service, with its files in a folder that is there.

    Args:
        folder: For certificate, keys, settings, output, and the store if it is a file.
        devnet: The chain.
        state_url: The store; empty: a file in the folder.
        keys: Lines of the storage key file.
        tables: More of the settings: tables by name.
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
        self._config.write_text(
            _toml(
                {
                    "": {
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
                    **tables,
                }
            )
        )
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://localhost:{self.http_port}/graphql"

    @property
    def peer(self) -> GrpcPeer:
        return GrpcPeer(address=f"localhost:{self.grpc_port}", ca=self.authority.certificate)

    def start(self) -> None:
        """Begin, without waiting for it to listen."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, "job-definitions", "run", "--config", self._config],
                stdout=output, stderr=output, env={"PYTHONPATH": "control"},
            )  # fmt: skip

    def wait(self) -> None:
        """Return when it listens for both kinds of callers."""
        deadline = time.monotonic() + START_S
        for port in (self.http_port, self.grpc_port):
            while not _listens(port):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise AssertionError(self.output.read_text())
                time.sleep(0.02)

    def kill(self) -> None:
        """End it as a power cut would end the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """End it as systemd does, and return its exit code."""
        self.process.terminate()
        return self.process.wait(START_S)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _toml(tables: dict[str, dict[str, object]]) -> str:
    lines: list[str] = []
    for name, table in tables.items():
        lines += [f"[{name}]"] if name else []
        lines += [
            f"{key} = {value if isinstance(value, int) else repr(value)}"
            for key, value in table.items()
        ]
    return "\n".join(lines) + "\n"
