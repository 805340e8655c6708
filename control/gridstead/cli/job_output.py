# SPDX-License-Identifier: Apache-2.0
"""A job's output as it comes, printed by a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from gridstead.cli.client import Client
from gridstead.cli.output import printable
from gridstead.errors import GridsteadError, Transient

FIRST_LINE_S = 5.0
QUIET_S = 1.0
RETRY_S = 1.0
POLL_S = 0.1


class JobOutput:
    """Shows a job's lines, each once, until it is stopped.

    The wire's stream has no end: a second of quiet stands for it.

    Args:
        client: The job's owner.
        number: The job.
        show: Prints a line, which came at a time in nanoseconds since the epoch.
    """

    def __init__(self, client: Client, number: int, show: Callable[[str, int], None]) -> None:
        self._client, self._number = client, number
        self._print = show
        self._printing = threading.Lock()
        self._stopped = False
        self._shown = 0
        self._quiet_since = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: GridsteadError | None = None

    def start(self) -> None:
        """Begin to show lines."""
        self._client.wallet.open()  # takes a second, and must not look like an empty log
        self._quiet_since = time.monotonic()
        self._thread.start()

    def drain(self) -> None:
        """Wait until no more lines come: a second after the last one, five when there was none yet."""
        while self._thread.is_alive():
            patience = QUIET_S if self._shown else FIRST_LINE_S
            if time.monotonic() - self._quiet_since > patience:
                return
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Print nothing any more; the thread ends with the process."""
        with self._printing:
            self._stopped = True

    def _run(self) -> None:
        while not self._stopped:
            try:
                for position, (line, timestamp_ns) in enumerate(read_lines(self._client, self._number)):
                    self._show(position, line, timestamp_ns)
            except Transient as error:
                self.error = error
            except GridsteadError as error:
                self.error = error
                return
            time.sleep(RETRY_S)

    def _show(self, position: int, line: str, timestamp_ns: int) -> None:
        with self._printing:
            if self._stopped or position < self._shown:
                return
            self._print(line, timestamp_ns)
            self._shown = position + 1
            self._quiet_since = time.monotonic()
            self.error = None


def read_lines(client: Client, number: int) -> Iterator[tuple[str, int]]:
    """Yield the lines of a job's output and their times, from the first one; does not end by itself."""
    from gridstead.adapters.channel import Peer  # noqa: PLC0415 - takes a second to import
    from gridstead.adapters.logger import LoggerClient  # noqa: PLC0415

    peer = client.settings.logger
    logger = LoggerClient(Peer(address=peer.endpoint, ca=peer.ca_file))
    try:
        lines = logger.read(
            client.wallet.address, f"0x{number:064x}", now=int(time.time()), sign=client.wallet.sign_text
        )
        for data, timestamp_ns in lines:
            yield printable(data.decode(errors="replace")), timestamp_ns
    finally:
        logger.close()
