# SPDX-License-Identifier: Apache-2.0
"""Sees what code does to the machine: files that it writes, processes and connections that it
starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

EVENTS = (
    "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile",
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate",
    "os.kill", "os.putenv", "os.unsetenv", "socket.connect", "socket.bind", "socket.getaddrinfo", "pty.spawn",
    "ctypes.dlopen", "webbrowser.open",
)  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_seen: list[list[str]] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _seen and (event in EVENTS or (event == "open" and _writes(arguments))):
        _seen[-1].append(f"{event} {arguments[0]!r}")


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & _WRITES)


sys.addaudithook(_hook)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Give the list to which each effect is added until the end."""
    _seen.append([])
    try:
        yield _seen[-1]
    finally:
        _seen.pop()
