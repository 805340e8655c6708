# SPDX-License-Identifier: Apache-2.0
"""Lines about the progress of `make vm`, and the times of its steps."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

INTERVAL_S = 60.0


class Progress:
    """Prints a line at the start of each step, and at least one line every minute."""

    def __init__(
        self,
        write: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """Start the clock. ``write`` prints a line."""
        self._write = write
        self._clock = clock
        self._interval_s = interval_s
        self._start_s = clock()
        self.seconds: dict[str, float] = {}  # duration of each finished step, in their order

    def report(self, text: str) -> None:
        """Print a line with the time since the start."""
        self._write(f"[{duration(self._clock() - self._start_s)}] {text}")

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Print lines about a step while the block runs. Store its duration if it succeeds."""
        start_s = self._clock()
        self.report(name)
        has_ended = threading.Event()

        def report_duration() -> None:
            while not has_ended.wait(self._interval_s):
                self.report(f"{name}: running for {duration(self._clock() - start_s)}")

        reporter = threading.Thread(target=report_duration, daemon=True)
        reporter.start()
        try:
            yield
        finally:
            has_ended.set()
            reporter.join()
        self.seconds[name] = self._clock() - start_s

    def summary(self) -> list[str]:
        """Return a line for each finished step."""
        width = max(map(len, self.seconds), default=0)
        return [f"{name:{width}}  {duration(step_s)}" for name, step_s in self.seconds.items()]


def duration(seconds: float) -> str:
    """Return a time as minutes and seconds, for example ``28 min 05 s``."""
    minutes, remaining_s = divmod(round(seconds), 60)
    return f"{minutes} min {remaining_s:02} s"
