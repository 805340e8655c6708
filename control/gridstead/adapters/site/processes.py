# SPDX-License-Identifier: Apache-2.0
"""Finds the processes of a run by an entry of their environment, and kills them through pidfds.

Ansible's workers and Mitogen's processes have their own groups and sessions and outlive the process
that started them, so neither a process group nor a parent leads to all of them. Rule: after a pidfd
is open, the environment is checked again, so that a reused pid is never signalled.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
RETRY_AFTER_S = 0.02


def end_processes(entry: str, *, within_s: float) -> tuple[int, ...]:
    """Kill all processes that have an entry in their environment, until none remains.

    Args:
        entry: ``NAME=value``.
        within_s: How long to try. Unit: s.

    Returns:
        The pids of the processes that still exist; empty unless the kernel cannot end one.
    """
    end = time.monotonic() + within_s
    while remaining := tuple(_with_entry(entry)):
        if time.monotonic() > end:
            return remaining
        for pid in remaining:
            _kill(pid, entry)
        time.sleep(RETRY_AFTER_S)  # a process may start another one meanwhile
    return ()


def _with_entry(entry: str) -> Iterator[int]:
    pids = (int(path.name) for path in PROC.iterdir() if path.name.isdigit())
    return (pid for pid in pids if _has_entry(pid, entry))


def _has_entry(pid: int, entry: str) -> bool:
    """Return whether a process has the entry; False for dead processes and for other users'."""
    try:
        return entry.encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _kill(pid: int, entry: str) -> None:
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            if _has_entry(pid, entry):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)
