# SPDX-License-Identifier: Apache-2.0
"""Find the processes of a lab and signal them through pidfds only.

Rule 1: a process belongs to the lab if it runs in a cgroup of the lab, is the systemd-nspawn of a
folder of the lab, is a shared ssh connection with its socket in such a folder, or has the lab's
mark in its environment.
Rule 2: a pid is opened as a pidfd first, and rule 1 is checked again *after* that. A pid that was
reused meanwhile is therefore never signalled.
Rule 3: this process and its ancestors are never signalled.
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
    """Yield the pids of all processes of this machine."""
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def argv(pid: int) -> list[str]:
    """Return a process's arguments; an empty word if it has ended or is a kernel thread."""
    return _read(pid, "cmdline").rstrip("\0").split("\0")


def nspawn_root(pid: int, folder: Path) -> Path | None:
    """Return the host root under a folder that a systemd-nspawn runs.

    Return None for another process. The shell that executes systemd-nspawn counts as well. The
    arguments are read only once, because the process may end between two reads.
    """
    words = argv(pid)
    if not any(word.endswith("systemd-nspawn") for word in words):
        return None
    for word in words:
        if word.startswith(f"--directory={folder}/"):
            return Path(word.removeprefix("--directory="))
    return None


def is_nspawn_of(pid: int, folder: Path) -> bool:
    """Return whether a process is the systemd-nspawn of a host root under a folder."""
    return nspawn_root(pid, folder) is not None


def is_marked(pid: int, mark: str) -> bool:
    """Return whether a process was started with this entry in its environment."""
    return mark in _read(pid, "environ").split("\0")


def is_ssh_master_of(pid: int, folder: Path) -> bool:
    """Return whether a process is a shared ssh connection with its socket in a folder."""
    return argv(pid)[0].startswith(f"ssh: {folder}/")


def is_in_cgroup_of(pid: int, prefix: str) -> bool:
    """Return whether a process runs in a cgroup of the lab with this prefix."""
    for line in _read(pid, "cgroup").splitlines():
        path = line.split(":", 2)[-1]
        if path.split("/")[1:2] in ([prefix], [f"{prefix}.slice"]):
            return True
    return False


def nspawns(names: Names) -> dict[str, int]:
    """Return host name -> pid of its systemd-nspawn, for the running hosts."""
    running = {}
    for pid in pids():
        root = nspawn_root(pid, names.run / "hosts")
        if root is not None:
            running[root.parent.name] = pid
    return running


def init_of(nspawn: int) -> int | None:
    """Return the pid of the container's PID 1, or None before it was started."""
    children = _read(nspawn, f"task/{nspawn}/children").split()
    for child in map(int, children):
        for line in _read(child, "status").splitlines():
            if "NSpid:" in line and line.split()[-1] == "1":
                return child
    return None


def ancestors() -> set[int]:
    """Return the pids of this process and of its ancestors."""
    result, pid = set(), os.getpid()
    while pid > 0 and pid not in result:
        result.add(pid)
        fields = _read(pid, "stat").rpartition(")")[2].split()
        pid = int(fields[1]) if fields else 0
    return result


def send(pid: int, number: int, ours: Predicate) -> bool:
    """Send a signal to a process if ``ours`` is still true; return whether it was sent."""
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
    """Kill every process for which ``ours`` is true; return whether none is left.

    Repeats for at most ``seconds``, because a process may start while the pids are read.
    """
    excluded = ancestors()
    end = time.monotonic() + seconds
    while True:
        left = [pid for pid in pids() if pid not in excluded and ours(pid) and not _is_zombie(pid)]
        if not left:
            return True
        if time.monotonic() > end:
            return False
        for pid in left:
            send(pid, signal.SIGKILL, ours)
        time.sleep(0.01)


def wait_gone(present: Callable[[], bool], *, seconds: float) -> bool:
    """Wait until ``present`` is false; return whether that happened within ``seconds``."""
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
