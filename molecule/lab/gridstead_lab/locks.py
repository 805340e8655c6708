# SPDX-License-Identifier: Apache-2.0
"""Mutexes between processes. The kernel releases them when their process ends."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def hold_mutex(name: str, report_waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a mutex of this machine during a ``with`` block.

    The mutex is an abstract socket name. The kernel releases it when the process ends, even if
    the process is killed. Child processes do not inherit the mutex.

    Args:
        name: The name of the mutex, such as a lab's prefix.
        report_waiting: A function that is called once if another process holds the mutex.
    """
    was_reported = False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        while True:
            try:
                lock.bind(f"\0gridstead-lab.{name}")
                break
            except OSError:
                if not was_reported:
                    report_waiting()
                was_reported = True
                time.sleep(0.05)
        yield
