# SPDX-License-Identifier: Apache-2.0
"""Locks that leave nothing behind: names of abstract sockets, freed by the kernel at any death."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def held(name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock of this machine for the time of a ``with`` block.

    Args:
        name: Same name, same lock; e.g. a lab's prefix.
        waiting: Called once if somebody else holds it.

    Guarantee: a killed holder holds nothing. Programs it started do not hold it either.
    """
    told = False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        while True:
            try:
                lock.bind(f"\0gridstead-lab.{name}")
                break
            except OSError:
                if not told:
                    waiting()
                told = True
                time.sleep(0.05)
        yield
