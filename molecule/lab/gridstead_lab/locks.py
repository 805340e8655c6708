# SPDX-License-Identifier: Apache-2.0
"""Mutexes between processes: abstract socket names, which the kernel frees when a process ends."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def held(name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a mutex of this machine for the duration of a ``with`` block.

    Args:
        name: The name of the mutex, e.g. a lab's prefix.
        waiting: Called once if another process holds the mutex.

    Guarantee: the mutex is free once its holder ends, even if the holder was killed. Programs that
    the holder started do not inherit it.
    """
    was_reported = False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        while True:
            try:
                lock.bind(f"\0gridstead-lab.{name}")
                break
            except OSError:
                if not was_reported:
                    waiting()
                was_reported = True
                time.sleep(0.05)
        yield
