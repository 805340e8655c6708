# SPDX-License-Identifier: Apache-2.0
"""Kills the processes of a run, which are identified by an environment variable.

Ansible's workers and Mitogen's processes have their own process groups and sessions, and may
outlive their parent. Therefore the processes of a run cannot be found by a process group or a
parent. The processes are killed through pidfds. After a pidfd is open, the environment is checked
again, so that an unrelated process that reuses the pid is never killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
RETRY_S = 0.02


def end_processes(variable: str, *, timeout_s: float) -> tuple[int, ...]:
    """Kill all processes that have an environment variable. Retry until none remains.

    Args:
        variable: The environment variable, as ``NAME=value``.
        timeout_s: The time after which the function gives up.

    Returns:
        The pids of the processes that the kernel did not end in time. Normally empty.
    """
    deadline = time.monotonic() + timeout_s
    while remaining := tuple(_pids_with_variable(variable)):
        if time.monotonic() > deadline:
            return remaining
        for pid in remaining:
            _kill(pid, variable)
        # The processes are listed again, because a killed process may have started another one.
        time.sleep(RETRY_S)
    return ()


def _pids_with_variable(variable: str) -> Iterator[int]:
    pids = (int(path.name) for path in PROC.iterdir() if path.name.isdigit())
    return (pid for pid in pids if _has_variable(pid, variable))


def _has_variable(pid: int, variable: str) -> bool:
    """Return whether a process has the variable. False if its environment cannot be read."""
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return variable.encode() in environment.split(b"\0")


def _kill(pid: int, variable: str) -> None:
    with suppress(ProcessLookupError):
        pidfd = os.pidfd_open(pid)
        try:
            if _has_variable(pid, variable):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)
