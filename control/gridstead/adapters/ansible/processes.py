# SPDX-License-Identifier: Apache-2.0
"""Processes of a run: found by an entry of their environment, ended through pidfds.

Ansible's workers and Mitogen's are groups and sessions of their own and outlive what started them:
neither a group nor a parent leads to all. Rule: what makes a process ours is looked at again once
its pidfd is open, so a pid that was used anew meanwhile is never signalled.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
LOOK_AGAIN_AFTER_S = 0.02


def end_processes(entry: str, *, within_s: float) -> tuple[int, ...]:
    """Kill every process that was started with an entry in its environment, until none is left.

    Args:
        entry: ``NAME=value``.
        within_s: How long to go on. Unit: s.

    Returns:
        The pids of those that are still there; empty unless the kernel holds one back.
    """
    end = time.monotonic() + within_s
    while left := tuple(_with_entry(entry)):
        if time.monotonic() > end:
            return left
        for pid in left:
            _kill(pid, entry)
        time.sleep(LOOK_AGAIN_AFTER_S)  # one may be born while we look
    return ()


def _with_entry(entry: str) -> Iterator[int]:
    pids = (int(path.name) for path in PROC.iterdir() if path.name.isdigit())
    return (pid for pid in pids if _has(pid, entry))


def _has(pid: int, entry: str) -> bool:
    """Return whether a process has the entry; one that is dead or another user's has none that we
    see.
    """
    try:
        return entry.encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _kill(pid: int, entry: str) -> None:
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            if _has(pid, entry):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)
