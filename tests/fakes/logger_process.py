# SPDX-License-Identifier: Apache-2.0
"""`gridstead logger run` as a process on the loopback interface that tests can kill and restart."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.fakes.certificates import Authority

from gridstead.adapters.channel import GrpcPeer
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.logs.access import WritePermit, make_write_token
from gridstead.domain.logs.log import LogId, log_identity_of

START_TIMEOUT_S = 120.0
_MAIN = "from gridstead.cli.main import main; main()"


def log_of(owner: str, number: int = 7, batch_location_hash: str = "script") -> LogId:
    """Return the log id of a job."""
    job_id = JobId(chain_id=179188, contract="0x" + "5c" * 20, number=number)
    job_key = JobKey(job_id=job_id, batch_location_hash=batch_location_hash)
    return LogId(owner=owner, name=job_id.slurm_job_name, log_identity=log_identity_of(job_key))


class LoggerProcess:
    """The logger process, with its files in an existing folder.

    Args:
        folder: Folder of the certificate, keys, settings, output and logs.
        settings: More settings of the service, as TOML values by name.
    """

    def __init__(self, folder: Path, **settings: object) -> None:
        self.authority = Authority(folder)
        files = self.authority.issue("logger")
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
        self.key = b"k" * 32
        self.storage = folder / "storage"
        self.storage.mkdir()
        for name in ("token-key", "storage-key"):
            (folder / name).write_bytes(self.key)
        self._config = folder / "logger.toml"
        lines = [
            f'listen = "127.0.0.1:{self.port}"',
            f'storage_directory = "{self.storage}"',
            f'log_token_key_file = "{folder}/token-key"',
            f'storage_key_file = "{folder}/storage-key"',
        ]
        # Without a server for browsers, whose default port could be in use.
        for name, value in {"web_origins": "[]", **settings}.items():
            lines.append(f"{name} = {value}")
        lines += [
            "[tls]",
            f'certificate_file = "{files.certificate}"',
            f'key_file = "{files.key}"',
        ]
        self._config.write_text("\n".join(lines) + "\n")
        self._output = folder / "output"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def peer(self) -> GrpcPeer:
        return GrpcPeer(address=f"localhost:{self.port}", ca=self.authority.certificate)

    def token(self, log: LogId, *, expires_at: int | None = None) -> str:
        return make_write_token(
            self.key, WritePermit(log=log, expires_at=expires_at or int(time.time()) + 3600)
        )

    def access_file(self, path: Path, log: LogId) -> Path:
        """Write the file with which a job's log writer connects to the logger. Return its path."""
        address = f"localhost:{self.port}"
        fields = (address, self.authority.certificate, log.owner, log.name, self.token(log))
        path.write_text("".join(f"{field}\n" for field in fields))
        return path

    def start(self, *prefix: str) -> None:
        """Start the process with a prefix command, such as prlimit. Do not wait for the port."""
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-c", _MAIN, "logger", "run", "--config", self._config],
                stdout=output,
                stderr=output,
                env={"PYTHONPATH": "control"},
            )

    def wait(self) -> None:
        """Wait until the process listens.

        Raises:
            AssertionError: If the process does not listen in time. The message is its output.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                if time.monotonic() > deadline:
                    raise AssertionError(self._output.read_text()) from None
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
