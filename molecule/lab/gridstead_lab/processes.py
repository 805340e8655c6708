# SPDX-License-Identifier: Apache-2.0
"""Processes of one lab: found by what they carry, signalled through pidfds only.

Rule 1: a pid read from anywhere is opened as a pidfd first, and the reason why it is ours is
checked again *after* that, so a pid that was reused in between is never signalled.
Rule 2: a process is ours if it lives in a cgroup of ours, is a systemd-nspawn of a folder of ours,
is a kept ssh connection with its socket there, or carries the lab's mark in its environment.
Rule 3: never this process, nor one of its ancestors.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gridstead_lab.names import Names

PROC = Path("/proc")
Predicate = Callable[[int], bool]


def pids() -> Iterator[int]:
    """Yield the pids of all processes the machine has now."""
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def argv(pid: int) -> list[str]:
    """Return a process's arguments; empty if it is gone or a kernel thread."""
    return _read(pid, "cmdline").rstrip("\0").split("\0")


def nspawn_root(pid: int, folder: Path) -> Path | None:
    """Return the host root under a folder that a systemd-nspawn runs; nothing for another process.

    The short shell that turns into systemd-nspawn counts as well. The arguments are read once: a
    process may end between two looks at it.
    """
    words = argv(pid)
    if not any(word.endswith("systemd-nspawn") for word in words):
        return None
    roots = (
        word.removeprefix("--directory=")
        for word in words
        if word.startswith(f"--directory={folder}/")
    )
    return next(map(Path, roots), None)


def is_nspawn_of(pid: int, folder: Path) -> bool:
    """Return whether a process is the systemd-nspawn of a host root under a folder."""
    return nspawn_root(pid, folder) is not None


def is_marked(pid: int, mark: str) -> bool:
    """Return whether a process was started with this entry in its environment."""
    return mark in _read(pid, "environ").split("\0")


def is_ssh_master_of(pid: int, folder: Path) -> bool:
    """Return whether a process is a kept ssh connection with its socket in a folder."""
    return argv(pid)[0].startswith(f"ssh: {folder}/")


def is_in_cgroup_of(pid: int, prefix: str) -> bool:
    """Return whether a process lives in a cgroup of the lab with this prefix."""
    paths = (line.split(":", 2)[-1] for line in _read(pid, "cgroup").splitlines())
    return any(path.split("/")[1:2] in ([prefix], [f"{prefix}.slice"]) for path in paths)


def nspawns(names: Names) -> dict[str, int]:
    """Return host name -> pid of its systemd-nspawn, for hosts that run."""
    roots = ((pid, nspawn_root(pid, names.run / "hosts")) for pid in pids())
    return {root.parent.name: pid for pid, root in roots if root is not None}


def init_of(nspawn: int) -> int | None:
    """Return the pid of the container's PID 1; nothing while it is not there yet."""
    children = _read(nspawn, f"task/{nspawn}/children").split()
    for child in map(int, children):
        numbers = [
            line.split()[1:] for line in _read(child, "status").splitlines() if "NSpid:" in line
        ]
        if numbers and numbers[0][-1] == "1":
            return child
    return None


def ancestors() -> set[int]:
    """Return the pids of this process and of all above it."""
    found, pid = set(), os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        fields = _read(pid, "stat").rpartition(")")[2].split()
        pid = int(fields[1]) if fields else 0
    return found


def send(pid: int, number: int, ours: Predicate) -> bool:
    """Send a signal to a process if it is still ours; return whether it was sent."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not ours(pid):
            return False
        signal.pidfd_send_signal(fd, signal.Signals(number) if number < signal.SIGRTMIN else number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def kill_all(ours: Predicate, *, seconds: float) -> bool:
    """Kill every process that is ours until none is left; return whether that was reached.

    Repeats, as a process may be born while we look. Ends after ``seconds``.
    """
    spared = ancestors()
    end = time.monotonic() + seconds
    while True:
        left = [pid for pid in pids() if pid not in spared and ours(pid) and not _is_zombie(pid)]
        if not left:
            return True
        if time.monotonic() > end:
            return False
        for pid in left:
            send(pid, signal.SIGKILL, ours)
        time.sleep(0.01)


def wait_gone(present: Callable[[], bool], *, seconds: float) -> bool:
    """Wait until something is no longer present; return whether that was reached in time."""
    end = time.monotonic() + seconds
    while present():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _is_zombie(pid: int) -> bool:
    return _read(pid, "stat").rpartition(")")[2].split()[:1] == ["Z"]


def _read(pid: int, what: str) -> str:
    try:
        return (PROC / str(pid) / what).read_text(errors="replace")
    except OSError:
        return ""
