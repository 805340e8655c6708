# SPDX-License-Identifier: Apache-2.0
"""Records the effects of a function: written files, new processes and network connections."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_AUDIT_EVENTS = (
    "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn",
    "os.spawn", "os.startfile", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link",
    "os.symlink", "os.chmod", "os.chown", "os.truncate", "os.kill", "os.putenv", "os.unsetenv",
    "socket.connect", "socket.bind", "socket.getaddrinfo", "pty.spawn", "ctypes.dlopen",
    "webbrowser.open",
)  # fmt: skip
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# The list of effects of each active recording. The innermost recording is last.
_recordings: list[list[str]] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    is_effect = event in _AUDIT_EVENTS or (event == "open" and _opens_for_writing(arguments))
    if _recordings and is_effect:
        _recordings[-1].append(f"{event} {arguments[0]!r}")


def _opens_for_writing(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]  # the arguments before it are the path and the mode
    return isinstance(flags, int) and bool(flags & _WRITE_FLAGS)


sys.addaudithook(_hook)


@contextmanager
def record_effects() -> Iterator[list[str]]:
    """Yield a list to which each effect is added until the context ends."""
    _recordings.append([])
    try:
        yield _recordings[-1]
    finally:
        _recordings.pop()
