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


def is_nspawn_of(pid: int, folder: Path) -> bool:
    """Return whether a process is the systemd-nspawn of a host root under a folder.

    The short shell that turns into systemd-nspawn counts as well.
    """
    words = argv(pid)
    return any(word.endswith("systemd-nspawn") for word in words) and any(
        word.startswith(f"--directory={folder}/") for word in words
    )


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
    folder = names.run / "hosts"
    found = {}
    for pid in pids():
        if not is_nspawn_of(pid, folder):
            continue
        word = next(word for word in argv(pid) if word.startswith(f"--directory={folder}/"))
        found[Path(word.removeprefix("--directory=")).parent.name] = pid
    return found


def init_of(nspawn: int) -> int | None:
    """Return the pid of the container's PID 1; nothing while it is not there yet."""
    children = _read(nspawn, f"task/{nspawn}/children").split()
    for child in map(int, children):
        numbers = [line.split()[1:] for line in _read(child, "status").splitlines() if "NSpid:" in line]
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
