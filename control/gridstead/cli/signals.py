# SPDX-License-Identifier: Apache-2.0
"""Handles the signals that end a command."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_stop_signal(function: Callable[[], None]) -> Iterator[None]:
    """Call a function on SIGINT and SIGTERM, as long as the context is open."""
    previous_handlers = {}
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        previous_handlers[signal_number] = signal.signal(
            signal_number, lambda _signal, _frame: function()
        )
    try:
        yield
    finally:
        for signal_number, handler in previous_handlers.items():
            signal.signal(signal_number, handler)
